// Prompts of very different lengths, and a small model to finetune on them.
#pragma once
#include <fmt/format.h>
#include <filesystem>
#include <random>
#include <string>

#include "partita/base/file.h"
#include "partita/config/config.h"
#include "partita/train/build_model.h"

namespace partita::internal::test {

inline std::string small_prompts(int examples) {
  std::mt19937 random(2);
  std::string lines;
  for (int i = 0; i < examples; ++i) {
    lines += fmt::format("{{\"prompt\": \"{}\", \"completion\": \"{}\"}}\n", std::string(random() % 4, 'a'),
                         std::string(random() % 3 == 0 ? 0 : random() % 12, static_cast<char>('b' + random() % 20)));
  }
  return lines;
}

// All examples are trained on, `global_batch` a step.
inline Config small_prompt_config(const std::filesystem::path& file, ModelKind kind) {
  Config c;
  c.model = {.kind = kind, .layers = 2, .hidden_size = 24, .heads = 3, .max_length = 24};
  c.model.dropout = c.model.embedding_dropout = c.model.attention_dropout = 0;
  c.data.format = DataFormat::prompts;
  c.data.path = file;
  c.data.split = "1";
  c.data.tokenizer = PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json";
  c.train.steps = 3;
  c.train.sequence_length = 24;
  c.train.micro_batch = 1;
  c.train.global_batch = 12;  // divides by 1, 2, 3 and 4 ranks
  c.eval.every = 0;
  complete_model(c);
  return c;
}

}  // namespace partita::internal::test
