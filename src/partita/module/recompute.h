// Activation checkpointing for any module: what a part of a model computes is forgotten after forward, and computed
// again in backward (T. Chen et al., "Training deep nets with sublinear memory cost", 2016).
//
//   // layer, attention: holders of torch::nn modules
//   at::Tensor y = recompute(layer, features);           // as layer->forward(features)
//   y = recompute(attention, y, mask);
//
// Dropout draws the same numbers again. Gradients of the parameters arrive in the backward pass that runs, so
// ZeroOptimizer takes them as usual.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace partita {

using ForwardOfTensors = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// As forward(inputs), which reads these parameters and no other tensors that require a gradient. It is called again in
// backward, and must then compute the same. Results must not be inputs themselves.
[[nodiscard]] std::vector<at::Tensor> recompute(const std::vector<at::Tensor>& parameters, ForwardOfTensors forward,
                                                const std::vector<at::Tensor>& inputs);

template <class Module, class... More>
[[nodiscard]] at::Tensor recompute(Module module, const at::Tensor& x, const More&... more) {
  const auto forward = [module]<size_t... I>(const std::vector<at::Tensor>& in, std::index_sequence<I...>) {
    Module callable = module;
    return std::vector<at::Tensor>{callable->forward(in[I]...)};
  };
  return recompute(
      module->parameters(),
      [forward](const std::vector<at::Tensor>& in) {
        return forward(in, std::make_index_sequence<1 + sizeof...(More)>());
      },
      std::vector<at::Tensor>{x, more...})[0];
}

}  // namespace partita
