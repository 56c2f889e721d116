// Parameters of a user's module, by name and by hyperparameters.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "partita/nn/parameter.h"
#include "partita/optim/optimizer_options.h"

namespace partita {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
  // Of the first or the last stage of a pipeline, which both have it: set by Pipeline::parameters.
  ParameterSpec::Copy copy = ParameterSpec::Copy::none;
};

// Of a torch::nn::Module, in the order of registration.
template <class Module>
[[nodiscard]] std::vector<NamedParameter> named(const Module& module) {
  std::vector<NamedParameter> all;
  for (const auto& item : module.named_parameters()) all.push_back({item.key(), item.value()});
  return all;
}

// Buffers of a torch::nn::Module, such as the running statistics of batch norm.
template <class Module>
[[nodiscard]] std::vector<NamedParameter> buffers(const Module& module) {
  std::vector<NamedParameter> all;
  for (const auto& item : module.named_buffers())
    if (item.value().defined()) all.push_back({item.key(), item.value()});
  return all;
}

// Tensors of a module that are not trained, and whole on every rank.
struct Untrained {
  std::vector<NamedParameter> buffers;   // may change in a step
  std::vector<NamedParameter> frozen{};  // parameters that never change
};

template <class Module>
[[nodiscard]] Untrained untrained(const Module& module) {
  Untrained all{.buffers = buffers(module)};
  for (NamedParameter& p : named(module))
    if (!p.tensor.requires_grad()) all.frozen.push_back(std::move(p));
  return all;
}

// Parameters with the same hyperparameters.
struct ParameterGroup {
  std::vector<NamedParameter> parameters;
  OptimizerOptions optimizer{.beta2 = 0.999, .weight_decay = 0.01};  // the defaults of torch::optim::AdamW
  double learning_rate = 1e-3;
};

}  // namespace partita
