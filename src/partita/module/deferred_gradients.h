// Gradients of linears' weights that wait while those of inputs go on to other stages of a pipeline (zero-bubble
// schedules: P. Qi et al., "Zero bubble pipeline parallelism", 2023).
//
//   const auto deferred = std::make_shared<DeferredGradients>();
//   { const DeferWeightGradients guard(deferred); y = module->forward(x); }     // weights have the operand key
//   ... backward of y: gradients of x and of other parameters ...
//   deferred->compute(parameters, gradients);                                   // the rest
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace partita::internal {

class DeferredGradients {
 public:
  void add(const at::Tensor& weight, std::function<at::Tensor()> gradient) {
    waiting_.push_back({weight, std::move(gradient)});
  }
  // Appends the weights and their gradients; a weight that was used twice occurs twice.
  void compute(std::vector<at::Tensor>& weights, std::vector<at::Tensor>& gradients);

 private:
  struct Waiting {
    at::Tensor weight;
    std::function<at::Tensor()> gradient;
  };
  std::vector<Waiting> waiting_;
};

// Within its life, linears of this thread leave the gradients of their weights to `deferred`.
class DeferWeightGradients {
 public:
  explicit DeferWeightGradients(std::shared_ptr<DeferredGradients> deferred);
  ~DeferWeightGradients();
  DeferWeightGradients(const DeferWeightGradients&) = delete;
  DeferWeightGradients& operator=(const DeferWeightGradients&) = delete;

 private:
  std::shared_ptr<DeferredGradients> before_;
};

// Null: no gradient is left.
[[nodiscard]] const std::shared_ptr<DeferredGradients>& deferred_gradients();

// Whether the operation, whose operands are on top of the stack, was a linear whose weight's gradient is left; then its
// result has replaced them.
bool call_deferred(const c10::OperatorHandle&, torch::jit::Stack&);

}  // namespace partita::internal
