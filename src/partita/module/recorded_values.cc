#include "partita/module/recorded_values.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "partita/device/host_memory.h"
#include "partita/module/operand_key.h"

namespace partita::internal {
namespace {

void run(const RecordedWrite& write, const c10::Storage& storage) {
  torch::jit::Stack stack{write.written.in(storage)};
  for (const c10::IValue& operand : write.operands)
    stack.push_back(operand.isGenerator() ? c10::IValue(operand.toGenerator().clone()) : operand);
  for (const RecordedWrite::Unmade& u : write.unmade) {
    const c10::Storage source = temporary_storage(u.bytes);
    replay(u.values, source);
    stack[u.operand] = u.view.in(source);
  }
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

void replay(const RecordedValues& values, const c10::Storage& storage) {
  const at::NoGradGuard none;
  const c10::impl::ExcludeDispatchKeyGuard plain(kOperandKey);  // neither recorded again nor reported
  std::vector<const RecordedWrite*> writes;
  for (const RecordedWrite* w = values.get(); w != nullptr; w = w->before.get()) writes.push_back(w);
  for (; !writes.empty(); writes.pop_back()) run(*writes.back(), storage);
}

c10::Storage temporary_storage(int64_t bytes) {
  const at::Tensor memory = host_zeros((bytes + 3) / 4, DType::fp32);
  memory.storage().unsafeGetStorageImpl()->set_nbytes(static_cast<size_t>(bytes));
  return memory.storage();
}

}  // namespace partita::internal
