#include "partita/module/stage_pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

namespace partita::internal {

std::vector<at::Tensor> differentiable(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& t : tensors)
    if (t.requires_grad()) result.push_back(t);
  return result;
}

StagePass::StagePass(std::span<const PipelinePart> parts, std::vector<at::Tensor> inputs, bool defers,
                     const std::function<void(size_t)>& before)
    : parts_(parts),
      inputs_(std::move(inputs)),
      outputs_(inputs_),
      deferred_(defers ? std::make_shared<DeferredGradients>() : nullptr) {
  const DeferWeightGradients guard(deferred_);
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (before) before(p);
    outputs_ = parts_[p].forward(outputs_);
  }
}

std::vector<at::Tensor> StagePass::trained() const {
  std::vector<at::Tensor> all;
  for (const PipelinePart& part : parts_)
    for (const NamedParameter& p : part.parameters) {
      const auto same = [&](const at::Tensor& other) { return other.is_same(p.tensor); };
      if (p.tensor.requires_grad() && std::ranges::none_of(all, same)) all.push_back(p.tensor);
    }
  return all;
}

std::vector<at::Tensor> StagePass::backward(const std::vector<at::Tensor>& of_outputs) {
  if (deferred_) {
    std::vector<at::Tensor> result = input_gradients(of_outputs);
    weight_gradients();
    return result;
  }
  std::vector<at::Tensor> result;
  const std::vector<at::Tensor> roots = differentiable(std::exchange(outputs_, {}));
  if (!roots.empty()) torch::autograd::backward(roots, of_outputs);
  for (const at::Tensor& input : differentiable(inputs_)) {
    result.push_back(input.grad().defined() ? input.grad() : at::zeros_like(input));
    input.mutable_grad().reset();
  }
  return result;
}

std::vector<at::Tensor> StagePass::input_gradients(const std::vector<at::Tensor>& of_outputs) {
  const std::vector<at::Tensor> roots = differentiable(std::exchange(outputs_, {})), inputs = differentiable(inputs_);
  parameters_ = trained();
  std::vector<at::Tensor> leaves = inputs;
  leaves.insert(leaves.end(), parameters_.begin(), parameters_.end());
  std::vector<at::Tensor> found(leaves.size());
  if (!roots.empty() && !leaves.empty())
    found = torch::autograd::grad(roots, leaves, of_outputs, /*retain_graph=*/false, /*create_graph=*/false,
                                  /*allow_unused=*/true);
  std::vector<at::Tensor> result(found.begin(), found.begin() + std::ssize(inputs));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!result[i].defined()) result[i] = at::zeros_like(inputs[i]);
  gradients_.assign(found.begin() + std::ssize(inputs), found.end());
  return result;
}

void StagePass::weight_gradients() {
  const at::NoGradGuard none;
  if (deferred_) deferred_->compute(parameters_, gradients_);
  std::vector<at::Tensor> parameters, gradients;
  for (size_t p = 0; p < parameters_.size(); ++p)
    if (gradients_[p].defined()) {
      parameters.push_back(parameters_[p]);
      gradients.push_back(gradients_[p]);
    }
  parameters_.clear(), gradients_.clear();
  if (!parameters.empty()) torch::autograd::backward(parameters, gradients);
}

}  // namespace partita::internal
