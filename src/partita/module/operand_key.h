// A dispatch key that makes operations of torch report themselves: those that have a tensor with it among their
// operands. Views inherit the key; other results do not. Its fallback, for all operations, asks lazy_operations.h,
// placed_operations.h, deferred_gradients.h and operand_watch.h, in this order.
//
// The key is one that torch keeps for its own tests (TESTING_ONLY_GenericWrapper, torch 2.11). No part of torch uses
// it, and it comes before all keys that have kernels, so that autograd records what the fallback does.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DispatchKeySet.h>

namespace partita::internal {

inline constexpr c10::DispatchKey kOperandKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

[[nodiscard]] bool has_operand_key(const at::Tensor&);
// Visits the tensors of an operand of an operation: one, or a list, also of optional ones.
template <class Visit>
void visit_tensors(const c10::IValue& operand, const Visit& visit) {
  if (operand.isTensor()) {
    visit(operand.toTensor());
  } else if (operand.isList()) {
    for (const c10::IValue& element : operand.toListRef()) visit_tensors(element, visit);
  }
}
// A tensor with the key over the same memory.
[[nodiscard]] at::Tensor with_operand_key(const at::Tensor&);
// tensor.set_data(data), which is not reported. The tensor has the key if `data` has it.
void set_data(const at::Tensor& tensor, const at::Tensor& data);

}  // namespace partita::internal
