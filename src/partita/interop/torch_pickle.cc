#include "partita/interop/torch_pickle.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDictionaryAdvice = "only a dictionary of tensors is read, use safetensors instead";
constexpr std::string_view kTensorAdvice = "only a tensor is read here";

struct StorageType {
  std::string_view name;
  ElementType type;
};
constexpr std::array kStorages = {
    StorageType{"torch.FloatStorage", ElementType::f32},     StorageType{"torch.HalfStorage", ElementType::f16},
    StorageType{"torch.BFloat16Storage", ElementType::bf16}, StorageType{"torch.DoubleStorage", ElementType::f64},
    StorageType{"torch.LongStorage", ElementType::i64},      StorageType{"torch.IntStorage", ElementType::i32},
    StorageType{"torch.ShortStorage", ElementType::i16},     StorageType{"torch.CharStorage", ElementType::i8},
    StorageType{"torch.ByteStorage", ElementType::u8},       StorageType{"torch.BoolStorage", ElementType::boolean}};
constexpr std::string_view kOrderedDict = "collections.OrderedDict", kRebuildTensor = "torch._utils._rebuild_tensor_v2",
                           kRebuildParameter = "torch._utils._rebuild_parameter";

}  // namespace

PickleUse TorchPickle::use_of(std::string_view name) const {
  const bool known = name == kOrderedDict || name == kRebuildTensor || name == kRebuildParameter ||
                     std::ranges::find(kStorages, name, &StorageType::name) != kStorages.end();
  return known ? PickleUse::known : PickleUse::refused;
}

PickleId TorchPickle::call(const std::string& name, const std::vector<PickleId>& arguments) {
  if (name == kOrderedDict && arguments.empty()) return add(PickleDict{});
  if (name == kRebuildTensor && (arguments.size() == 6 || arguments.size() == 7)) return tensor_of(arguments);
  if (name == kRebuildParameter && arguments.size() == 3) {
    require_empty(arguments[2], "hooks of a parameter");
    if (!get<PickleOpaque>(arguments[0])) (void)as<PickledTensorPointer>(arguments[0], "the tensor of a parameter");
    return arguments[0];
  }
  refuse("a call of {} with {} arguments", name, arguments.size());
}

PickleId TorchPickle::persistent(PickleId id) {
  const std::vector<PickleId>& items = as<PickleTuple>(id, "a persistent id that is a tuple").items;
  if (items.size() != 5 || as<std::string>(items[0], "the word storage") != "storage")
    refuse("a persistent id that is not a storage");
  if (const PickleOpaque* opaque = get<PickleOpaque>(items[1])) return add(PickleOpaque{opaque->what});
  const std::string& type = as<PickleName>(items[1], "the type of a storage").text;
  const auto found = std::ranges::find(kStorages, type, &StorageType::name);
  if (found == kStorages.end()) refuse("{} is not a type of storage", type);
  const int64_t count = as<int64_t>(items[4], "the elements of a storage");
  if (count < 0) refuse("a storage of {} elements", count);
  return add(PickleStorage{found->type, short_text(items[2], "the key of a storage"), count});
}

// (storage, offset, sizes, strides, requires_grad, hooks, metadata)
PickleId TorchPickle::tensor_of(const std::vector<PickleId>& arguments) {
  if (const PickleOpaque* opaque = get<PickleOpaque>(arguments[0])) return add(PickleOpaque{opaque->what});
  const PickleStorage& storage = as<PickleStorage>(arguments[0], "the storage of a tensor");
  PickledTensor tensor{.type = storage.type,
                       .shape = integers(arguments[2], "the shape of a tensor"),
                       .strides = integers(arguments[3], "the strides of a tensor"),
                       .storage = storage.key,
                       .storage_count = storage.count,
                       .offset = as<int64_t>(arguments[1], "the offset of a tensor")};
  if (tensor.shape.size() != tensor.strides.size())
    refuse("a tensor with {} sizes and {} strides", tensor.shape.size(), tensor.strides.size());
  (void)as<bool>(arguments[4], "whether a tensor has a gradient");
  require_empty(arguments[5], "hooks of a tensor");
  if (arguments.size() == 7) require_empty(arguments[6], "metadata of a tensor");
  return add(std::make_unique<const PickledTensor>(std::move(tensor)));
}

void TorchPickle::require_empty(PickleId id, std::string_view what) {
  if (get<PickleNone>(id)) return;
  if (!as<PickleDict>(id, what).items.empty()) refuse("{} are not allowed", what);
}

std::vector<PickledTensor> unpickle_tensors(std::span<const std::byte> bytes, const fs::path& path) {
  TorchPickle pickle(bytes, path, kDictionaryAdvice, PickleMachine::Opcodes::containers);
  const PickleId root = pickle.run();
  std::vector<PickledTensor> list;
  std::set<std::string, std::less<>> names;
  for (const auto& [key, value] : pickle.as<PickleDict>(root, "a dictionary of tensors").items) {
    const std::string& name = pickle.as<std::string>(key, "a name of a tensor");
    if (!names.insert(name).second) pickle.refuse("the name '{}' occurs twice", PickleMachine::shown(name));
    const PickledTensorPointer* tensor = pickle.get<PickledTensorPointer>(value);
    if (!tensor) pickle.refuse("'{}' is not a tensor", PickleMachine::shown(name));
    list.push_back(**tensor);
    list.back().name = name;
  }
  return list;
}

PickledTensor unpickle_tensor(std::span<const std::byte> bytes, const fs::path& path) {
  TorchPickle pickle(bytes, path, kTensorAdvice, PickleMachine::Opcodes::containers);
  const PickleId root = pickle.run();
  return *pickle.as<PickledTensorPointer>(root, "a tensor");
}

}  // namespace partita::internal
