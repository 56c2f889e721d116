// Generates text with a trained model.
//
//   Generator generator = Generator::open({.path = "runs/quickstart"}, mesh);
//   generator.generate("In the beginning", {.tokens = 100, .sampling = {.temperature = 0.8F}, .seed = 1},
//                      [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); });
//   // streams "In the beginning", then the generated continuation
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "partita/comm/mesh.h"
#include "partita/engine/engine.h"
#include "partita/generate/sampling.h"
#include "partita/interop/generation_config.h"
#include "partita/models/config.h"
#include "partita/tokenizer/prompt_text.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

struct GenerateOptions {
  int64_t tokens = 128;  // maximum; generation stops earlier at the end of a document
  Sampling sampling;
  uint64_t seed = 1234;
  PromptSpecials specials;
};

// Token counts and timings of one generation.
struct GenerateReport {
  int64_t prompt_tokens = 0, tokens = 0;  // tokens: number generated, including the end of the document
  double prompt_seconds = 0, seconds = 0;

  [[nodiscard]] double tokens_per_second() const;  // excludes the prompt, whose last position yields the first token
};

class Generator {
 public:
  struct Paths {
    std::filesystem::path path;       // a Hugging Face folder, a run folder (its newest checkpoint), or a checkpoint
    std::filesystem::path base;       // base model of adapters; empty: the path stored with them
    std::filesystem::path tokenizer;  // empty: the one stored with the model
  };
  // Computes on mesh.device(); the mesh must outlive the generator. Keys and values are stored in `compute`. Errors: a
  // mesh of several ranks; those of open_model; no tokenizer found; the tokenizer has more tokens than the model.
  [[nodiscard]] static Generator open(const Paths&, const Mesh&, DType compute = DType::fp32);
  static Generator open(const Paths&, const Mesh&&, DType = DType::fp32) = delete;  // the mesh must outlive it

  // Calls `piece` with the prompt, after all warnings about it, then with each piece of text once its bytes form whole
  // characters. A text longer than the model's positions continues with the last half of them as context (decoder.h).
  // An empty prompt starts a new document.
  GenerateReport generate(std::string_view prompt, const GenerateOptions&,
                          const std::function<void(std::string_view)>& piece);

  [[nodiscard]] const ModelConfig& model() const { return model_; }
  [[nodiscard]] const GenerationConfig& published() const { return published_; }  // generation_config.json
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }       // the folder or checkpoint used

 private:
  Generator() = default;
  std::filesystem::path path_;
  ModelConfig model_;
  GenerationConfig published_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<int32_t> ends_;  // tokens that end the text
  DType compute_ = DType::fp32;
  at::Device device_ = at::kCPU;
  std::unique_ptr<Engine> engine_;
};

// Length of the longest prefix of `bytes` that does not end inside a UTF-8 character. Pure.
[[nodiscard]] size_t whole_characters(std::string_view bytes);

}  // namespace partita
