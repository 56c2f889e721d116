// The loss of a trained model on a whole file, each token counted once.
//
//   const Evaluation e = evaluate("runs/quickstart", {.data = "data/test_text_document"}, world);
//   fmt::print("perplexity {}\n", e.perplexity());
//
// A token file is read as one text in windows of sequence_length that lie side by side, so that the first tokens of a
// window see little before them: longer windows give a lower loss. JSON lines are prompts with completions, which alone
// count; several lie in one sample, for speed, and none sees another. Those that are longer are cut.
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
  std::filesystem::path data;       // prefix of token files; or JSON lines, by the file's ending
  std::filesystem::path tokenizer;  // of JSON lines; empty: the model's own
  std::filesystem::path base;       // of adapters; empty: where they say
  std::string prompt_key = "prompt", completion_key = "completion";
  PromptSpecials specials;
  int64_t sequence_length = 0;  // 0: the model's, but no more than 1024
  int64_t micro_batch = 4;      // samples a rank computes at once
  int64_t batches = 0;          // the first so many times micro_batch samples; 0: all
  DType precision = DType::fp32;
  DeviceRequest device = DeviceRequest::automatic;
  int zero_stage = 0;  // 3: each rank holds its part of the weights alone
};

struct Evaluation {
  double loss = 0;  // mean over tokens, in nats
  int64_t tokens = 0, samples = 0;

  [[nodiscard]] double perplexity() const { return std::exp(loss); }
};

// All ranks call it together. The same on any number of ranks, but for the rounding of sums in double precision.
// Errors: those of open_model and of the data; a sequence length beyond the model's; an example of which nothing fits;
// nothing to predict.
[[nodiscard]] Evaluation evaluate(const std::filesystem::path& model, const EvaluateOptions&, World&);

}  // namespace partita
