#include "partita/module/deferred_gradients.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <optional>
#include <utility>

#include "partita/module/linear_operands.h"
#include "partita/module/operand_key.h"
#include "partita/module/tensor_functions.h"

namespace partita::internal {
namespace {

thread_local std::shared_ptr<DeferredGradients> current;

}  // namespace

void DeferredGradients::compute(std::vector<at::Tensor>& weights, std::vector<at::Tensor>& gradients) {
  for (const Waiting& waiting : std::exchange(waiting_, {})) {
    weights.push_back(waiting.weight);
    gradients.push_back(waiting.gradient());
  }
}

DeferWeightGradients::DeferWeightGradients(std::shared_ptr<DeferredGradients> deferred)
    : before_(std::exchange(current, std::move(deferred))) {}
DeferWeightGradients::~DeferWeightGradients() { current = std::move(before_); }

const std::shared_ptr<DeferredGradients>& deferred_gradients() { return current; }

bool call_deferred(const c10::OperatorHandle& operation, torch::jit::Stack& stack) {
  if (!current || !at::GradMode::is_enabled()) return false;
  const c10::FunctionSchema& schema = operation.schema();
  const std::optional<LinearOperands> linear =
      linear_operands(schema, torch::jit::last(stack, schema.arguments().size()));
  // The key says that it is a weight: an input of a stage is a leaf, too.
  if (!linear || !has_operand_key(linear->weight) || !linear->weight.requires_grad() ||
      !parameter_of(linear->weight).defined())
    return false;
  at::Tensor result = whole_linear(linear->x, linear->weight, linear->bias);
  torch::jit::drop(stack, schema.arguments().size());
  torch::jit::push(stack, std::move(result));
  return true;
}

}  // namespace partita::internal
