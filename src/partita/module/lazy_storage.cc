#include "partita/module/lazy_storage.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <utility>

#include "partita/module/operand_key.h"
#include "partita/module/storage_access.h"

namespace partita::internal {
namespace {

std::atomic<int64_t> lazy_storages = 0;

// Instead of memory, a storage owns the record.
void end_record(void* values) {
  --lazy_storages;
  delete static_cast<RecordedValues*>(values);
}

const at::DataPtr& pointer_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
}

RecordedValues& record_of(const at::Tensor& tensor) {
  return *static_cast<RecordedValues*>(pointer_of(tensor).get_context());
}

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.storage().nbytes()); }

}  // namespace

at::Tensor make_lazy(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       at::DataPtr(nullptr, new RecordedValues, &end_record, at::kCPU), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  ++lazy_storages;
  forbid_access(
      storage,
      "the memory of a tensor is read that was constructed lazily and has none yet: let an operation of torch "
      "read it first, such as tensor.sum(), or construct it without LazyConstruction");
  return with_operand_key(
      StorageView{.dtype = dtype, .sizes = sizes.vec(), .strides = strides.vec(), .offset = 0}.in(storage));
}

bool any_lazy() { return lazy_storages != 0; }

bool is_lazy(const at::Tensor& tensor) {
  return any_lazy() && has_operand_key(tensor) && tensor.has_storage() && tensor.device().is_cpu() &&
         pointer_of(tensor).get_deleter() == &end_record;
}

RecordedValues recorded(const at::Tensor& tensor) { return record_of(tensor); }

void record(const at::Tensor& tensor, RecordedWrite write) {
  RecordedValues& values = record_of(tensor);
  values = append(values, std::move(write), bytes_of(tensor));
}

void make_real(const at::Tensor& tensor) {
  if (!is_lazy(tensor)) return;
  c10::Storage made(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(), c10::GetCPUAllocator(),
                    /*resizable=*/true);
  replay(recorded(tensor), made);
  allow_access(tensor.storage(), std::move(made.mutable_data_ptr()));
}

at::Tensor copy_of_values(const at::Tensor& tensor, bool needed) {
  if (!is_lazy(tensor)) return tensor.detach().clone(at::MemoryFormat::Contiguous);
  const c10::Storage storage = temporary_storage(bytes_of(tensor));
  if (needed) replay(recorded(tensor), storage);
  return StorageView::of(tensor).in(storage).contiguous();
}

void take_values(const at::Tensor& tensor, at::Tensor&& values) {
  if (is_lazy(tensor) && StorageView::of(tensor).covers(bytes_of(tensor)) &&
      StorageView::of(values).covers(bytes_of(tensor)) && bytes_of(values) == bytes_of(tensor)) {
    allow_access(tensor.storage(), std::move(values.storage().mutable_data_ptr()));
    tensor.unsafeGetTensorImpl()->bump_version();
  } else {
    tensor.copy_(values);
  }
}

}  // namespace partita::internal
