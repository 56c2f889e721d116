// What the usage examples of the public headers name and do not declare (header_examples.py). They are compiled, not
// run.
#pragma once
#include <fmt/format.h>
#include <partita/partita.h>
#include <partita/torch_modules.h>

namespace partita {

extern World& world;
extern const Mesh& mesh;
extern Communicator& dp;
extern Stream& stream;
extern Engine& engine;
extern ZeroOptimizer& optimizer;
extern const Zero zero;
extern const EngineOptions options;
extern const Block& block;
extern const Weights weights;
extern Residual x;
extern ResidualGrad g;
extern Context& context;
extern Saved& saved;
extern Grads& grads;
extern const CheckpointContents contents;
extern const ModelConfig model;
extern const Batch batch;
extern const std::vector<Batch> batches;
extern BatchLoader& loader;
extern const SampleSource& dataset;
extern const SampleSlots slots;
extern const std::span<int32_t> token_ids, labels, positions, first_keys;
extern const std::vector<std::vector<int32_t>> documents;
extern const std::vector<std::string> texts;
extern const Config config;
extern const std::unique_ptr<Tokenizer> tokenizer;
extern const std::filesystem::path folder, path;
extern const std::string line;
extern at::Tensor partial, slice, gradients, features, mask;
extern const int64_t k, tokens, ranks, better, step, steps, global_batch;
extern const uint64_t seed;
extern const double tokens_per_second;

[[nodiscard]] std::string sample(int64_t step);

struct Item {
  [[nodiscard]] std::string key() const;
  [[nodiscard]] at::Tensor value() const;
};
extern struct Module {  // as a torch::nn::Module, without its headers
  [[nodiscard]] std::vector<Item> named_parameters() const;
  [[nodiscard]] std::vector<Item> named_buffers() const;
  [[nodiscard]] at::Tensor loss(int64_t step);
} module;

extern const struct Layer {  // as the holder of a torch::nn::Module
  const Layer* operator->() const { return this; }
  const Layer& operator*() const { return *this; }
  [[nodiscard]] std::vector<Item> named_parameters() const;
  [[nodiscard]] std::vector<Item> named_buffers() const;
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  [[nodiscard]] at::Tensor forward(const at::Tensor&) const;
  [[nodiscard]] at::Tensor forward(const at::Tensor&, const at::Tensor&) const;
} layer, attention;

struct LanguageModel {  // as the holder of a torch::nn::Module
  explicit LanguageModel(int layers);
  const Module& operator*() const { return module; }
};

class Sampler : public Hook {
  [[nodiscard]] int priority() const override { return 50; }
};

}  // namespace partita
