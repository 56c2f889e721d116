// Text from a trained model.
//
//   Generator generator = Generator::open({.path = "runs/quickstart"}, mesh);
//   generator.generate("In the beginning", {.tokens = 100, .sampling = {.temperature = 0.8F}, .seed = 1},
//                      [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); });
//   // "In the beginning", then what the model adds
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
  int64_t tokens = 128;  // at most; generation ends earlier at the end of a document
  Sampling sampling;
  uint64_t seed = 1234;
  PromptSpecials specials;
};

// What was read and written, and how long it took.
struct GenerateReport {
  int64_t prompt_tokens = 0, tokens = 0;  // tokens: that were drawn, the end of the document among them
  double prompt_seconds = 0, seconds = 0;

  [[nodiscard]] double tokens_per_second() const;  // without the prompt, whose last position gives the first token
};

class Generator {
 public:
  struct Paths {
    std::filesystem::path path;  // a Hugging Face folder, a run's folder (its newest checkpoint is taken), a checkpoint
    std::filesystem::path base;  // of adapters; empty: where they say
    std::filesystem::path tokenizer;  // empty: the one that lies there
  };
  // It computes on mesh.device(), and the mesh outlives it; keys and values are kept in `compute`. Errors: a mesh of several ranks; those
  // of open_model; no tokenizer found; a tokenizer of more tokens than the model has.
  [[nodiscard]] static Generator open(const Paths&, const Mesh&, DType compute = DType::fp32);

  // Hands on the prompt, once all warnings about it are said, then each piece of text as soon as its bytes are whole
  // characters. A text longer than the model's positions continues with the last half of them as context (decoder.h). An
  // empty prompt begins a document.
  GenerateReport generate(std::string_view prompt, const GenerateOptions&,
                          const std::function<void(std::string_view)>& piece);

  [[nodiscard]] const ModelConfig& model() const { return model_; }
  [[nodiscard]] const GenerationConfig& published() const { return published_; }  // generation_config.json
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }  // the folder or checkpoint that was taken

 private:
  Generator() = default;
  std::filesystem::path path_;
  ModelConfig model_;
  GenerationConfig published_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<int32_t> ends_;  // tokens behind which nothing comes
  DType compute_ = DType::fp32;
  at::Device device_ = at::kCPU;
  std::unique_ptr<Engine> engine_;
};

// The length of the longest prefix of `bytes` that does not end inside a UTF-8 character. Pure.
[[nodiscard]] size_t whole_characters(std::string_view bytes);

}  // namespace partita
