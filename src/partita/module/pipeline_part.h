// A part of a model for pipeline parallelism: a function of tensors and the parameters that it reads. A model is a list
// of parts, of which each but the first takes what the one before it returns.
//
//   std::vector<PipelinePart> parts;
//   parts.push_back(pipeline_part("first", layer));              // layer: the holder of a torch::nn::Module
//   parts.push_back({.name = "second", .forward = [](const std::vector<at::Tensor>& x) { return x; }});
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "partita/module/parameter_group.h"
#include "partita/module/recompute.h"

namespace partita {

struct PipelinePart {
  std::string name;
  // Of any number of tensors, of any dtype and shape. It is called on one rank only.
  ForwardOfTensors forward;
  // With names in the whole model. A parameter of the first and of the last stage may be the same (tied).
  std::vector<NamedParameter> parameters = {};
  // With names in the whole model: for checkpoints. Parts may share a buffer.
  std::vector<NamedParameter> buffers = {};
  double time = 1;  // of its passes, relative to other parts: for stages of equal time
};

// A module whose forward takes as many tensors as the part before it returns, and returns one. Its parameters and
// buffers are called NAME.weight, and so on.
template <class Module, size_t inputs = 1>
[[nodiscard]] PipelinePart pipeline_part(const std::string& name, Module module, double time = 1) {
  PipelinePart part{.name = name, .time = time};
  for (const auto& item : module->named_parameters())
    part.parameters.push_back({name + "." + item.key(), item.value()});
  for (NamedParameter& buffer : buffers(*module))
    part.buffers.push_back({name + "." + buffer.name, std::move(buffer.tensor)});
  part.forward = [module](const std::vector<at::Tensor>& in) {
    Module callable = module;
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::vector<at::Tensor>{callable->forward(in.at(I)...)};
    }
    (std::make_index_sequence<inputs>());
  };
  return part;
}

}  // namespace partita
