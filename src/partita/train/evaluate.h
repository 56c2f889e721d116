// The loss of a trained model on a whole file, with each token counted once.
//
//   const Evaluation e = evaluate("runs/quickstart", {.data = "data/test_text_document"}, world);
//   fmt::print("perplexity {}\n", e.perplexity());
//
// A token file is read as one text in adjacent windows of sequence_length. The first tokens of a window have little
// context, so longer windows give a lower loss. A JSON lines file holds prompts and completions; only completions are
// scored. For speed, several examples are packed into one sample with attention masked between them. Examples that are
// too long are truncated.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>

#include "partita/base/dtype.h"
#include "partita/comm/device.h"
#include "partita/comm/world.h"
#include "partita/tokenizer/prompt_text.h"

namespace partita {

struct EvaluateOptions {
  std::filesystem::path data;       // prefix of token files, or a JSON lines file (decided by the extension)
  std::filesystem::path tokenizer;  // for JSON lines; empty: the model's own
  std::filesystem::path base;       // base model of adapters; empty: the path stored with them
  std::string prompt_key = "prompt", completion_key = "completion";
  PromptSpecials specials;
  int64_t sequence_length = 0;  // 0: the model's, but no more than 1024
  int64_t micro_batch = 4;      // samples per rank in one forward pass
  int64_t batches = 0;          // number of batches of micro_batch samples to evaluate; 0: all
  DType precision = DType::fp32;
  DeviceRequest device = DeviceRequest::automatic;
  int zero_stage = 0;  // 3: each rank holds only its shard of the weights
};

struct Evaluation {
  double loss = 0;  // mean over tokens, in nats
  int64_t tokens = 0, samples = 0;

  [[nodiscard]] double perplexity() const { return std::exp(loss); }
};

// Collective over all ranks. The result is the same on any number of ranks, up to rounding of double-precision sums.
// Errors: those of open_model and of the data; a sequence length beyond the model's; an example that does not fit at
// all; nothing to predict.
[[nodiscard]] Evaluation evaluate(const std::filesystem::path& model, const EvaluateOptions&, World&);

}  // namespace partita
