#include "partita/module/tensor_placement.h"

#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "partita/base/error.h"
#include "partita/module/operand_key.h"

namespace partita::internal {
namespace {

struct Placed {
  c10::weak_intrusive_ptr<c10::TensorImpl> parameter;  // whose address is not another one's as long as this is here
  std::unique_ptr<TensorPlacement> placement;
};

struct Registry {
  std::mutex mutex;
  std::atomic<bool> used = false;
  std::unordered_map<const c10::TensorImpl*, Placed> all;

  static Registry& get() {
    static auto* registry = new Registry;  // never destroyed: tensors may outlive static objects
    return *registry;
  }
};

// Whether `view` aliases the parameter's memory.
bool is_view_of(const at::Tensor& view, c10::TensorImpl& parameter) {
  if (!parameter.has_storage() || !view.has_storage() ||
      view.storage().unsafeGetStorageImpl() != parameter.storage().unsafeGetStorageImpl())
    return false;
  const int64_t offset = view.storage_offset() - parameter.storage_offset();
  return offset >= 0 && offset < parameter.numel();
}

}  // namespace

bool any_placed() { return Registry::get().used; }

const TensorPlacement* placement_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  if (const auto found = registry.all.find(tensor.unsafeGetTensorImpl());
      found != registry.all.end() && !found->second.parameter.expired())
    return found->second.placement.get();
  if (!has_operand_key(tensor)) return nullptr;
  for (const auto& [address, placed] : registry.all)
    if (const auto parameter = placed.parameter.lock(); parameter && is_view_of(tensor, *parameter))
      return placed.placement.get();
  return nullptr;
}

void place(const at::Tensor& parameter, const at::Tensor& part, TensorPlacement placement) {
  if (placement_of(parameter) != nullptr) fail("{} is divided over tensor-parallel ranks already", placement.spec.name);
  if (placement.divided()) {
    set_data(parameter, with_operand_key(part));
    parameter.mutable_grad().reset();
    if (parameter.requires_grad())  // an earlier forward has left one that expects the whole shape
      torch::autograd::impl::set_grad_accumulator(parameter, {});
  }
  Registry& registry = Registry::get();
  registry.used = true;
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.all, [](const auto& entry) { return entry.second.parameter.expired(); });
  registry.all.insert_or_assign(parameter.unsafeGetTensorImpl(),
                                Placed{c10::weak_intrusive_ptr<c10::TensorImpl>(parameter.getIntrusivePtr()),
                                       std::make_unique<TensorPlacement>(std::move(placement))});
}

}  // namespace partita::internal
