#include "partita/module/operand_watch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "partita/base/error.h"
#include "partita/module/operand_key.h"
#include "partita/module/storage_access.h"

namespace partita::internal {
namespace {

constexpr const char* kNoMemory =
    "the memory of a parameter is read, which is there only while an operation of torch reads it (ZeroOptimizer with "
    "stage 3): call an operation instead, register kernels with torch, and save what weights() or clone() returns";

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
  int64_t watches = 0;  // that have been made

  static Registry& get() {
    static auto* registry = new Registry;  // never destroyed: tensors may outlive static objects
    return *registry;
  }

  struct Numbers {
    OperandWatch* watch;
    std::vector<int> used, written;
  };
  // In the order in which the watches were made, which is the same in all processes that run one program.
  using Used = std::map<int64_t, Numbers>;
  Used find(const std::vector<c10::Argument>& arguments, at::ArrayRef<c10::IValue> operands) {
    Used used;
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < operands.size(); ++i) {
      const c10::AliasInfo* alias = arguments[i].alias_info();
      const bool written = alias != nullptr && alias->isWrite();
      if (alias != nullptr && !written) continue;  // a view is made, or what reads the operand is reported itself
      visit_tensors(operands[i], [&](const at::Tensor& tensor) {
        if (!has_operand_key(tensor) || !tensor.has_storage()) return;
        const auto found = places.find(tensor.storage().unsafeGetStorageImpl());
        if (found == places.end()) return;
        const auto& [watch, number, after_end, storage] = found->second;
        if (watch == nullptr) fail("{}", after_end);
        Numbers& of_watch = used.try_emplace(watch->order_, Numbers{watch, {}, {}}).first->second;
        of_watch.used.push_back(number);
        if (written) of_watch.written.push_back(number);
      });
    }
    for (auto& [order, numbers] : used)
      for (std::vector<int>* list : {&numbers.used, &numbers.written}) {
        std::ranges::sort(*list);
        const auto repeated = std::ranges::unique(*list);
        list->erase(repeated.begin(), repeated.end());
      }
    return used;
  }

  // Calls `after` for each watch whose `before` was called, whatever fails.
  class Report {
   public:
    void before(const Numbers& numbers) {
      reported_.push_back(&numbers);
      numbers.watch->calls_.before(numbers.used);
    }
    void after() {
      while (!reported_.empty()) {
        const Numbers& numbers = *reported_.back();
        reported_.pop_back();
        numbers.watch->calls_.after(numbers.used, numbers.written);
      }
    }
    ~Report() {
      while (!reported_.empty()) try {
          after();
        } catch (...) {  // the operation's own error is on its way
        }
    }
    Report() = default;
    Report(const Report&) = delete;
    Report& operator=(const Report&) = delete;

   private:
    std::vector<const Numbers*> reported_;
  };
};

// Operations inside of this one are reported, too: composite ones, such as linear, only call others.
void call_watched(const c10::OperatorHandle& operation, const torch::jit::Stack& stack,
                  const std::function<void()>& run) {
  const std::vector<c10::Argument>& arguments = operation.schema().arguments();
  const OperandWatch::Registry::Used used =
      OperandWatch::Registry::get().find(arguments, torch::jit::last(stack, arguments.size()));
  OperandWatch::Registry::Report report;
  for (const auto& [order, numbers] : used) report.before(numbers);
  run();
  report.after();
}

OperandWatch::OperandWatch(Calls calls, std::string after_end)
    : calls_(std::move(calls)), after_end_(std::move(after_end)) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  order_ = registry.watches++;
}

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
  set_memory(storage, nullptr);
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.places, [](const auto& place) { return place.second.storage.expired(); });
  registry.places.insert_or_assign(
      storage.unsafeGetStorageImpl(),
      Registry::Place{.watch = this, .number = number, .after_end = {}, .storage = storage.getWeakStorageImpl()});
  storages_.push_back(storage);
  return storage;
}

// Without elements there is nothing that could be read wrongly, and no memory to be shown.
void OperandWatch::set_memory(const c10::Storage& storage, void* memory) {
  allow_access(storage, at::DataPtr(memory, storage.device()));
  if (memory == nullptr && storage.nbytes() > 0) forbid_access(storage, kNoMemory);
}

bool OperandWatch::has(const at::Tensor& tensor) {
  if (!has_operand_key(tensor) || !tensor.has_storage()) return false;
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.places.find(tensor.storage().unsafeGetStorageImpl());
  return found != registry.places.end() && !found->second.storage.expired();
}

at::Tensor OperandWatch::view(const c10::Storage& storage, const at::Tensor& like, int64_t offset) {
  const at::Tensor plain = at::empty({0}, like.options());
  const at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), plain.key_set().add(kOperandKey), plain.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(like.sizes());
  return tensor;
}

}  // namespace partita::internal
