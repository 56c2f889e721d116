#include "partita/interop/megatron_file.h"

#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/printable.h"
#include "partita/interop/torch_pickle.h"
#include "partita/interop/torch_storages.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kNamespace = "argparse.Namespace";
constexpr int kDeepest = 8;
constexpr size_t kLongestName = 1000;
// Of the arguments together with the elements of lists. A pickle may hold one long list any number of times.
constexpr int kMostArguments = 50'000;

class MegatronPickle final : public TorchPickle {
 public:
  MegatronPickle(std::span<const std::byte> bytes, const fs::path& path)
      : TorchPickle(bytes, path, "the file is damaged, or Megatron-LM did not write it", Opcodes::objects) {}

 private:
  [[nodiscard]] PickleUse use_of(std::string_view name) const override {
    if (name == kNamespace) return PickleUse::known;
    return TorchPickle::use_of(name) == PickleUse::known ? PickleUse::known : PickleUse::opaque;
  }
  PickleId call(const std::string& name, const std::vector<PickleId>& arguments) override {
    if (name == kNamespace && arguments.empty()) return add(PickleObject{name, std::nullopt});
    return TorchPickle::call(name, arguments);
  }
};

std::string kind_of(const PickleValue& value) {
  if (const auto* opaque = std::get_if<PickleOpaque>(&value)) return opaque->what;
  if (const auto* object = std::get_if<PickleObject>(&value)) return object->name;
  if (const auto* name = std::get_if<PickleName>(&value)) return name->text;
  if (std::holds_alternative<PickledTensorPointer>(value)) return "a tensor";
  if (std::holds_alternative<PickleDict>(value)) return "a dictionary";
  if (std::holds_alternative<std::string>(value)) return "a text";
  if (std::holds_alternative<PickleList>(value) || std::holds_alternative<PickleTuple>(value)) return "a list";
  return "a number";
}

json placeholder(const PickleValue& value) { return "<" + kind_of(value) + ">"; }

}  // namespace

struct MegatronFile::Contents {
  Contents(std::span<const std::byte> bytes, fs::path of)
      : path(std::move(of)), archive(bytes, path), pickle(archive.pickle(), path), storages(bytes, path) {
    root = pickle.run();
    // Objects of a torch_dist checkpoint are lists of what each rank of a group holds.
    if (const auto* list = pickle.get<PickleList>(root); list && list->items.size() == 1) root = list->items[0];
    for (const auto& [key, value] : pickle.as<PickleDict>(root, "a dictionary of a checkpoint").items)
      if (const std::string* name = pickle.get<std::string>(key)) entries[*name] = value;
  }

  // Lists are converted to one level: a pickle may hold one list in itself, or any number of times.
  json plain(PickleId id, bool lists, int& converted) {
    if (++converted > kMostArguments) pickle.refuse("args hold more than {} values", kMostArguments);
    const PickleValue& value = pickle.value(id);
    if (std::holds_alternative<PickleNone>(value)) return nullptr;
    if (const auto* boolean = std::get_if<bool>(&value)) return *boolean;
    if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
    if (const auto* number = std::get_if<double>(&value)) return *number;
    if (const auto* text = std::get_if<std::string>(&value)) return printable_line(text->substr(0, 200));
    const auto* list = std::get_if<PickleList>(&value);
    if (!list || !lists || list->items.size() > 1000) return placeholder(value);
    json items = json::array();
    for (PickleId item : list->items) items.push_back(plain(item, false, converted));
    return items;
  }

  // `found` gets the tensors under the dictionary `id`, whose name is `prefix`.
  void collect(PickleId id, const std::string& prefix, int depth, std::set<PickleId>& visited,
               std::map<std::string, Value, std::less<>>& found) {
    if (depth > kDeepest) pickle.refuse("'{}' is nested more than {} deep", PickleMachine::shown(prefix), kDeepest);
    if (!visited.insert(id).second)
      pickle.refuse("'{}' is a dictionary that occurs twice", PickleMachine::shown(prefix));
    for (const auto& [key, item] : pickle.as<PickleDict>(id, "a dictionary of tensors").items) {
      const std::string& name = pickle.as<std::string>(key, "a name of a tensor");
      if (prefix.size() + name.size() > kLongestName)
        pickle.refuse("a name of {} bytes in '{}', at most {} are read", prefix.size() + name.size(),
                      PickleMachine::shown(prefix), kLongestName);
      const std::string full = prefix.empty() ? name : prefix + "." + name;
      if (pickle.get<PickleDict>(item)) {
        collect(item, full, depth + 1, visited, found);
        continue;
      }
      if (pickle.get<PickleNone>(item)) continue;
      Value value;
      if (const PickledTensorPointer* tensor = pickle.get<PickledTensorPointer>(item)) {
        PickledTensor named = **tensor;
        named.name = full;
        value.tensor = storages.tensor(archive.locate(std::move(named)));
      } else {
        value.what = kind_of(pickle.value(item));
      }
      if (!found.emplace(full, std::move(value)).second)
        pickle.refuse("the name '{}' occurs twice", PickleMachine::shown(full));
    }
  }

  fs::path path;
  TorchArchive archive;
  MegatronPickle pickle;
  TorchStorages storages;
  PickleId root = 0;
  std::map<std::string, PickleId, std::less<>> entries;
};

MegatronFile::MegatronFile(std::span<const std::byte> bytes, fs::path path)
    : contents_(std::make_unique<Contents>(bytes, std::move(path))) {}
MegatronFile::MegatronFile(MegatronFile&&) noexcept = default;
MegatronFile::~MegatronFile() = default;

const fs::path& MegatronFile::path() const { return contents_->path; }

bool MegatronFile::has(std::string_view entry) const { return contents_->entries.contains(entry); }

std::optional<json> MegatronFile::arguments() const {
  const auto found = contents_->entries.find("args");
  if (found == contents_->entries.end()) return std::nullopt;
  PickleMachine& pickle = contents_->pickle;
  PickleId id = found->second;
  if (const PickleObject* object = pickle.get<PickleObject>(id); object && object->state) id = *object->state;
  json arguments = json::object();
  int converted = 0;
  for (const auto& [key, value] : pickle.as<PickleDict>(id, "an argparse.Namespace or a dictionary as args").items)
    if (const std::string* name = pickle.get<std::string>(key))
      arguments[*name] = contents_->plain(value, true, converted);
  return arguments;
}

std::optional<double> MegatronFile::number(std::string_view entry) const {
  const auto found = contents_->entries.find(entry);
  if (found == contents_->entries.end()) return std::nullopt;
  if (const int64_t* integer = contents_->pickle.get<int64_t>(found->second)) return static_cast<double>(*integer);
  if (const double* number = contents_->pickle.get<double>(found->second)) return *number;
  return std::nullopt;
}

std::map<std::string, MegatronFile::Value, std::less<>> MegatronFile::tensors(std::string_view entry) const {
  const auto found = contents_->entries.find(entry);
  if (found == contents_->entries.end()) fail("{} holds no '{}'", path().string(), entry);
  std::map<std::string, Value, std::less<>> tensors;
  std::set<PickleId> visited;
  contents_->collect(found->second, "", 0, visited, tensors);
  return tensors;
}

}  // namespace partita::internal
