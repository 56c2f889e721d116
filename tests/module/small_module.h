// A torch::nn::Module with what users' modules have, in sizes that do not divide: a convolution, norms, an embedding,
// a tied weight, parameters that are frozen, unused, scalar, or without elements.
#pragma once
#include <torch/torch.h>

namespace partita::internal::test {

struct SmallModuleImpl : torch::nn::Module {
  explicit SmallModuleImpl(int64_t seed = 0) {
    torch::manual_seed(seed);
    embedding = register_module("embedding", torch::nn::Embedding(11, 15));
    first = register_module("first", torch::nn::Linear(15, 7));
    convolution = register_module("convolution", torch::nn::Conv1d(torch::nn::Conv1dOptions(7, 9, 3).padding(1)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({9})));
    again = register_module("again", first);  // the same module under another name
    last = register_module("last", torch::nn::Linear(9, 15));
    scale = register_parameter("scale", torch::ones({}));
    empty = register_parameter("empty", torch::empty({0, 5}));
    unused = register_parameter("unused", torch::randn({13}));
    frozen = register_parameter("frozen", torch::randn({15}), /*requires_grad=*/false);
  }

  // Logits over the embedding's rows, for tokens [samples, length].
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = torch::gelu(first(embedding(tokens) + frozen));
    x = convolution(x.transpose(1, 2)).transpose(1, 2);
    x = last(norm(x)) * scale + empty.sum();
    x = x + torch::tanh(again(x)).sum(-1, true);
    return torch::matmul(x, embedding->weight.t());
  }

  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear first{nullptr}, again{nullptr}, last{nullptr};
  torch::nn::Conv1d convolution{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::Tensor scale, empty, unused, frozen;
};
TORCH_MODULE(SmallModule);

// Samples first .. first + count - 1, each a function of its number.
inline torch::Tensor small_samples(int64_t first, int64_t count) {
  torch::Tensor tokens = torch::empty({count, 6}, torch::kLong);
  for (int64_t s = 0; s < count; ++s)
    for (int64_t i = 0; i < 6; ++i) tokens[s][i] = ((first + s) * 7 + i * i * (first + s + 1)) % 11;
  return tokens;
}

inline torch::Tensor small_loss(SmallModule& module, const torch::Tensor& samples) {
  const torch::Tensor tokens = samples.to(module->scale.device());
  const torch::Tensor logits = module->forward(tokens.narrow(1, 0, 5));
  const auto at_least_fp32 = torch::promote_types(logits.scalar_type(), torch::kFloat);
  return torch::nn::functional::cross_entropy(logits.reshape({-1, 11}).to(at_least_fp32),
                                              tokens.narrow(1, 1, 5).reshape({-1}));
}

}  // namespace partita::internal::test
