#include "partita/module/recorded_values.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <utility>

#include "partita/module/operand_key.h"

namespace partita::internal {
namespace {

void run(const RecordedWrite& write, const c10::Storage& storage) {
  torch::jit::Stack stack{write.written.in(storage)};
  for (const c10::IValue& operand : write.operands)
    stack.push_back(operand.isGenerator() ? c10::IValue(operand.toGenerator().clone()) : operand);
  for (const RecordedWrite::Unmade& u : write.unmade) stack[u.operand] = u.view.in(replay(u.values, u.bytes));
  write.operation.callBoxed(stack);
}

}  // namespace

StorageView StorageView::of(const at::Tensor& tensor) {
  return {.dtype = tensor.scalar_type(),
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset()};
}

at::Tensor StorageView::in(const c10::Storage& storage) const {
  const at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

bool StorageView::covers(int64_t bytes) const {
  int64_t count = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != count) return false;
    count *= sizes[d];
  }
  return offset == 0 && count * static_cast<int64_t>(c10::elementSize(dtype)) == bytes;
}

RecordedValues append(const RecordedValues& values, RecordedWrite write, int64_t bytes) {
  if (!write.overwrites || !write.written.covers(bytes)) write.before = values;
  write.cost = 1 + cost(write.before);
  for (const RecordedWrite::Unmade& u : write.unmade) write.cost += cost(u.values);
  return std::make_shared<const RecordedWrite>(std::move(write));
}

int64_t cost(const RecordedValues& values) { return values ? values->cost : 0; }

c10::Storage replay(const RecordedValues& values, int64_t bytes) {
  const at::NoGradGuard none;
  const c10::impl::ExcludeDispatchKeyGuard plain(kOperandKey);  // neither recorded again nor reported
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  std::vector<const RecordedWrite*> writes;
  for (const RecordedWrite* w = values.get(); w != nullptr; w = w->before.get()) writes.push_back(w);
  for (; !writes.empty(); writes.pop_back()) run(*writes.back(), storage);
  return storage;
}

}  // namespace partita::internal
