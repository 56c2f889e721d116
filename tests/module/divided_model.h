// A transformer of torch::nn in sizes that ranks do not divide, for tests of tensor parallelism: fused and separate
// projections, a norm of each head, uneven features and vocabulary, a tied or an untied head.
#pragma once
#include <torch/torch.h>

#include "partita/module/tensor_plan.h"

namespace partita::internal::test {

inline constexpr int64_t kWords = 37, kHead = 4, kHeads = 5, kWide = kHead * kHeads, kInner = 27, kLong = 6;

struct DividedLayerImpl : torch::nn::Module {
  DividedLayerImpl() {
    register_module("norm", norm);
    register_module("qkv", qkv);
    register_module("head_norm", head_norm);
    register_module("projection", projection);
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) {  // [samples, length, width]
    const int64_t n = x.size(0), t = x.size(1);
    const torch::Tensor packed = qkv(norm(x));
    const auto heads = [&](const torch::Tensor& a) { return a.view({n, t, -1, kHead}).transpose(1, 2); };
    const std::vector<torch::Tensor> parts = packed.chunk(3, -1);
    const torch::Tensor y = torch::scaled_dot_product_attention(head_norm(heads(parts[0])), heads(parts[1]),
                                                                heads(parts[2]), {}, 0, /*is_causal=*/true);
    const torch::Tensor a = x + projection(y.transpose(1, 2).reshape({n, t, -1}));
    return a + down(torch::gelu(up(norm(a))));
  }
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWide})}, head_norm{torch::nn::LayerNormOptions({kHead})};
  torch::nn::Linear qkv{kWide, 3 * kWide}, projection{kWide, kWide}, up{kWide, kInner}, down{kInner, kWide};
};
TORCH_MODULE(DividedLayer);

struct DividedModelImpl : torch::nn::Module {
  explicit DividedModelImpl(bool tie = false) : tied(tie) {
    register_module("table", table);
    for (int i = 0; i < 2; ++i) layers->push_back(DividedLayer());
    register_module("layers", layers);
    convolution = register_parameter("convolution", torch::randn({kWide, 1, 3}));  // of three dimensions
    scale = register_parameter("scale", torch::ones({}));
    if (!tied) register_module("head", head);
    frozen = register_parameter("frozen", torch::randn({kWide}), /*requires_grad=*/false);
  }
  torch::Tensor features(const torch::Tensor& tokens) {
    torch::Tensor x = table(tokens) + frozen;
    x = x + torch::conv1d(x.transpose(1, 2), convolution, {}, 1, 1, 1, kWide).transpose(1, 2) * scale;
    for (const auto& layer : *layers) x = layer->as<DividedLayer>()->forward(x);
    return x;
  }
  torch::Tensor logits(const torch::Tensor& tokens) {
    const torch::Tensor x = features(tokens);
    return tied ? torch::nn::functional::linear(x, table->weight) : head(x);
  }
  [[nodiscard]] torch::Tensor head_weight() const { return tied ? table->weight : head->weight; }

  bool tied;
  torch::nn::Embedding table{kWords, kWide};
  torch::nn::ModuleList layers;
  torch::nn::Linear head{kWide, kWords};
  torch::Tensor convolution, scale, frozen;
};
TORCH_MODULE(DividedModel);

inline TensorPlan divided_plan(bool tied, bool gather) {
  TensorPlan plan{{.module = "table", .role = TensorRole::vocabulary, .gather = gather},
                  {.module = "layers.*.qkv", .role = TensorRole::column, .parts = 3, .quantum = kHead},
                  {.module = "layers.*.head_norm", .role = TensorRole::replicate_sum},
                  {.module = "layers.*.projection", .role = TensorRole::row, .quantum = kHead},
                  {.module = "**up", .role = TensorRole::column},
                  {.module = "**down", .role = TensorRole::row}};
  if (!tied) plan.push_back({.module = "head", .role = TensorRole::vocabulary, .gather = gather});
  return plan;
}

// Samples first .. first + count - 1, each a function of its number: [count, kLong + 1].
inline torch::Tensor divided_samples(int64_t first, int64_t count) {
  const torch::Tensor s = torch::arange(first, first + count).unsqueeze(1), i = torch::arange(kLong + 1).unsqueeze(0);
  return (s * 11 + i * i * (s + 2) + i * 5).remainder(kWords);
}

inline torch::Tensor divided_loss(DividedModel& model, const torch::Tensor& samples) {
  return torch::nn::functional::cross_entropy(model->logits(samples.narrow(1, 0, kLong)).reshape({-1, kWords}),
                                              samples.narrow(1, 1, kLong).reshape({-1}));
}

}  // namespace partita::internal::test
