#include "partita/module/operand_watch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// The only key that any tensor may have and that no part of torch uses; it comes before all others.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

template <class Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isList()) {  // of optional tensors
    for (const c10::IValue& element : value.toListRef()) visit_tensors(element, visit);
  }
}

}  // namespace

struct OperandWatch::Registry {
  struct Place {
    OperandWatch* watch;  // null: gone
    int number;
    std::string after_end;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // whose address is not another one's as long as this is here
  };
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, Place> places;

  static Registry& get() {
    static auto* registry = new Registry;  // never destroyed: tensors may outlive static objects
    return *registry;
  }

  using Used = std::map<OperandWatch*, std::vector<int>>;
  Used find(at::ArrayRef<c10::IValue> operands) {
    Used used;
    const std::lock_guard lock(mutex);
    for (const c10::IValue& operand : operands)
      visit_tensors(operand, [&](const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.key_set().has(kKey) || !tensor.has_storage()) return;
        const auto found = places.find(tensor.storage().unsafeGetStorageImpl());
        if (found == places.end()) return;
        if (found->second.watch == nullptr) fail("{}", found->second.after_end);
        used[found->second.watch].push_back(found->second.number);
      });
    for (auto& [watch, numbers] : used) {
      std::ranges::sort(numbers);
      const auto repeated = std::ranges::unique(numbers);
      numbers.erase(repeated.begin(), repeated.end());
    }
    return used;
  }

  static void report_end(const Used& used) {
    for (const auto& [watch, numbers] : used) watch->calls_.after(numbers);
  }

  // Operations inside of this one are reported, too: a backward pass is one.
  static void run(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const Used used = get().find(torch::jit::last(*stack, operation.schema().arguments().size()));
    for (const auto& [watch, numbers] : used) watch->calls_.before(numbers);
    try {
      operation.redispatchBoxed(keys.remove(kKey), stack);
    } catch (...) {
      report_end(used);
      throw;
    }
    report_end(used);
  }
};

OperandWatch::OperandWatch(Calls calls, std::string after_end)
    : calls_(std::move(calls)), after_end_(std::move(after_end)) {}

OperandWatch::~OperandWatch() {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  for (const c10::Storage& storage : storages_) {
    Registry::Place& place = registry.places.at(storage.unsafeGetStorageImpl());
    place.watch = nullptr;
    place.after_end = after_end_;
  }
}

c10::Storage OperandWatch::add(int number, int64_t bytes, at::Device device) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes), at::DataPtr(nullptr, device),
                       /*allocator=*/nullptr, /*resizable=*/false);
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.places, [](const auto& place) { return place.second.storage.expired(); });
  registry.places.insert_or_assign(
      storage.unsafeGetStorageImpl(),
      Registry::Place{.watch = this, .number = number, .after_end = {}, .storage = storage.getWeakStorageImpl()});
  storages_.push_back(storage);
  return storage;
}

void OperandWatch::set_memory(const c10::Storage& storage, void* memory) {
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(memory, storage.device()));
}

at::Tensor OperandWatch::view(const c10::Storage& storage, const at::Tensor& like, int64_t offset) {
  const at::Tensor plain = at::empty({0}, like.options());
  const at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), plain.key_set().add(kKey), plain.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(like.sizes());
  return tensor;
}

void OperandWatch::set_data(const at::Tensor& tensor, const at::Tensor& data) {
  const c10::impl::ExcludeDispatchKeyGuard inside(kKey);
  tensor.set_data(data);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&OperandWatch::Registry::run>());
}

}  // namespace partita::internal
