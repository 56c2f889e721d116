#include "partita/module/operand_key.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>

#include "partita/module/deferred_gradients.h"
#include "partita/module/lazy_operations.h"
#include "partita/module/operand_watch.h"
#include "partita/module/placed_operations.h"

namespace partita::internal {
namespace {

void report(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (call_lazy(operation, *stack)) return;
  const InsideOfOperation inside(operation);
  const PlacedCall placed = call_placed(operation, *stack);
  if (placed == PlacedCall::computed || call_deferred(operation, *stack)) return;
  std::optional<OnOwnPart> part;  // also of the operations that this one is made of
  if (placed == PlacedCall::of_part) part.emplace();
  call_watched(operation, *stack, [&] {
    operation.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kOperandKey), stack);
  });
}

}  // namespace

bool has_operand_key(const at::Tensor& tensor) { return tensor.defined() && tensor.key_set().has(kOperandKey); }

at::Tensor with_operand_key(const at::Tensor& plain) {
  const at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(plain.storage()),
                                                                     plain.key_set().add(kOperandKey), plain.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(plain.storage_offset());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(plain.sizes(), plain.strides());
  return tensor;
}

void set_data(const at::Tensor& tensor, const at::Tensor& data) {
  const c10::impl::ExcludeDispatchKeyGuard inside(kOperandKey);
  tensor.set_data(data);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&report>());
}

}  // namespace partita::internal
