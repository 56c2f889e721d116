#include "partita/interop/dcp_metadata.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/interop/pickle_machine.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

// Classes whose objects are looked into.
constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata.Metadata",
                           kTensor = "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
                           kChunk = "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
                           kBytes = "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
                           kIndex = "torch.distributed.checkpoint.metadata.MetadataIndex",
                           kProperties = "torch.distributed.checkpoint.metadata.TensorProperties",
                           kProperties21 = "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
                           kStorage = "torch.distributed.checkpoint.filesystem._StorageInfo";
// Enumerators, of no use here. Some versions of Python pickle one as a call of its class, others as one of getattr.
constexpr std::array<std::string_view, 3> kEnumerations = {
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.planner.WriteItemType"};
constexpr std::array<std::string_view, 2> kGetattr = {"builtins.getattr", "__builtin__.getattr"};
// Of no use here: where the checkpoint was written, layouts, and the plans of who wrote what.
constexpr std::array<std::string_view, 13> kUnused = {"torch.distributed.checkpoint.metadata.StorageMeta",
                                                      "torch.distributed.checkpoint.filesystem._StoragePrefix",
                                                      "torch.distributed.checkpoint.planner.SavePlan",
                                                      "torch.distributed.checkpoint.planner.WriteItem",
                                                      "torch.distributed.checkpoint.planner.TensorWriteData",
                                                      "torch.distributed.checkpoint.planner.BytesIOWriteData",
                                                      "megatron.core.dist_checkpointing.strategies.torch.MCoreMetadata",
                                                      "megatron.core.dist_checkpointing.strategies.torch.MCoreSavePlan",
                                                      "torch.serialization._get_layout",
                                                      "pathlib.PosixPath",
                                                      "pathlib.PurePosixPath",
                                                      "pathlib._local.PosixPath",
                                                      "pathlib._local.PurePosixPath"};
constexpr size_t kMostAttributes = 32;
constexpr std::string_view kSize = "torch.Size", kOrderedDict = "collections.OrderedDict";
constexpr std::array<std::string_view, 27> kDtypes = {
    "float64",         "float32",     "float16",         "bfloat16",       "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
    "int64",           "int32",       "int16",           "int8",           "uint64",
    "uint32",          "uint16",      "uint8",           "bool",           "complex128",
    "complex64",       "complex32",   "qint8",           "quint8",         "qint32",
    "quint4x2",        "quint2x4"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}
bool is_dtype(std::string_view name) {
  constexpr std::string_view kTorch = "torch.";
  return name.starts_with(kTorch) && is_one_of(name.substr(kTorch.size()), kDtypes);
}

class MetadataPickle final : public PickleMachine {
 public:
  MetadataPickle(std::span<const std::byte> bytes, const fs::path& path)
      : PickleMachine(bytes, path, "only the metadata that torch.distributed.checkpoint writes is read",
                      Opcodes::objects) {}

 private:
  [[nodiscard]] PickleUse use_of(std::string_view name) const override {
    if (is_one_of(name, kUnused)) return PickleUse::opaque;
    constexpr std::array kClasses = {kMetadata,   kTensor,       kChunk,   kBytes, kIndex,
                                     kProperties, kProperties21, kStorage, kSize,  kOrderedDict};
    const bool known =
        is_one_of(name, kClasses) || is_one_of(name, kEnumerations) || is_one_of(name, kGetattr) || is_dtype(name);
    return known ? PickleUse::known : PickleUse::refused;
  }

  PickleId call(const std::string& name, const std::vector<PickleId>& arguments) override {
    if (name == kSize && arguments.size() == 1) {
      (void)integers(arguments[0], "a size");
      return arguments[0];
    }
    if (is_one_of(name, kEnumerations) && arguments.size() == 1) return add(PickleNone{});
    if (is_one_of(name, kGetattr) && arguments.size() == 2) {
      const std::string& of = as<PickleName>(arguments[0], "an enumeration").text;
      if (!is_one_of(of, kEnumerations)) refuse("an attribute of {}", of);
      return add(PickleNone{});
    }
    if (name == kOrderedDict && arguments.empty()) return add(PickleDict{});
    const bool of_class = name.starts_with("torch.distributed.") && !is_one_of(name, kEnumerations);
    if (!of_class || !arguments.empty()) refuse("a call of {} with {} arguments", name, arguments.size());
    return add(PickleObject{name, std::nullopt});
  }
};

// Turns the graph into DcpMetadata. It is followed to a fixed depth.
class Reader {
 public:
  Reader(MetadataPickle& pickle, const fs::path& path) : pickle_(pickle), path_(path) {}

  DcpMetadata read(PickleId root) {
    const Fields metadata = fields(root, kMetadata, "the checkpoint");
    read_places(required(metadata, "storage_data", "the checkpoint"));
    DcpMetadata out;
    for (const auto& [key, value] : dictionary(required(metadata, "state_dict_metadata", "the checkpoint"))) {
      const std::string& name = text(key, "a name");
      if (out.tensors.contains(name) || out.objects.contains(name)) refuse("the name '{}' occurs twice", shown(name));
      if (is_object(value, kBytes))
        out.objects.emplace(name, take_place(name, {}, "'" + shown(name) + "'"));
      else
        out.tensors.emplace(name, tensor(name, value));
    }
    return out;
  }

 private:
  using Fields = std::map<std::string_view, PickleId>;
  struct Place {
    std::string_view name;
    std::vector<int64_t> offsets;
    auto operator<=>(const Place&) const = default;
  };

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{} is damaged: {}: copy or write the checkpoint again", path_.string(),
         fmt::format(format, std::forward<Args>(args)...));
  }
  static std::string shown(std::string_view name) { return PickleMachine::shown(name); }

  const std::string& text(PickleId id, std::string_view what) {
    const std::string* value = pickle_.get<std::string>(id);
    if (!value) refuse("{} is not a text", what);
    return *value;
  }
  int64_t number(PickleId id, std::string_view what) {
    const int64_t* value = pickle_.get<int64_t>(id);
    if (!value || *value < 0) refuse("{} is not a number of at least 0", what);
    return *value;
  }
  std::vector<int64_t> numbers(PickleId id, const std::string& what) {
    if (!pickle_.get<PickleTuple>(id)) refuse("{} is not a size", what);
    std::vector<int64_t> list = pickle_.integers(id, what);
    if (std::ranges::any_of(list, [](int64_t value) { return value < 0; })) refuse("{} is negative", what);
    return list;
  }
  const std::vector<std::pair<PickleId, PickleId>>& dictionary(PickleId id) {
    const PickleDict* value = pickle_.get<PickleDict>(id);
    if (!value) refuse("a dictionary is missing");
    return value->items;
  }
  bool is_object(PickleId id, std::string_view name) {
    const PickleObject* object = pickle_.get<PickleObject>(id);
    return object && object->name == name;
  }
  // The attributes of an object of the class.
  Fields fields(PickleId id, std::string_view name, const std::string& what) {
    const PickleObject* object = pickle_.get<PickleObject>(id);
    if (!object || object->name != name || !object->state) refuse("{} is not described by a {}", what, name);
    // Objects may share one state, which is copied for each of them.
    const auto& attributes = dictionary(*object->state);
    if (attributes.size() > kMostAttributes) refuse("{} has {} attributes", what, attributes.size());
    Fields found;
    for (const auto& [key, value] : attributes)
      if (!found.emplace(text(key, "an attribute"), value).second) refuse("{} has an attribute twice", what);
    return found;
  }
  PickleId required(const Fields& fields, const char* name, const std::string& what) const {
    const auto found = fields.find(name);
    if (found == fields.end()) refuse("{} has no '{}'", what, name);
    return found->second;
  }

  void read_places(PickleId id) {
    for (const auto& [key, value] : dictionary(id)) {
      const Fields index = fields(key, kIndex, "an entry of its storage");
      Place place{text(required(index, "fqn", "an entry of its storage"), "a name"), {}};
      const std::string what = "the storage of '" + shown(place.name) + "'";
      const auto offset = index.find("offset");
      if (offset != index.end() && !pickle_.get<PickleNone>(offset->second))
        place.offsets = numbers(offset->second, what);
      if (!places_.emplace(std::move(place), value).second) refuse("{} is given twice", what);
    }
  }

  // Takes the place, so that a list of chunks that many tensors share is no longer than the list of places.
  DcpPlace take_place(std::string_view name, const std::vector<int64_t>& offsets, const std::string& what) {
    const auto found = places_.extract(Place{name, offsets});
    if (found.empty()) refuse("{} is in no file, or listed twice", what);
    const Fields info = fields(found.mapped(), kStorage, "the storage of " + what);
    const std::string& file = text(required(info, "relative_path", what), "the file of " + what);
    if (file.empty() || file.size() > 255 || fs::path(file).filename() != file || file == "." || file == "..")
      refuse("{} is in '{}', which is outside the folder", what, shown(file));
    if (const auto transforms = info.find("transform_descriptors"); transforms != info.end()) {
      const PickleList* list = pickle_.get<PickleList>(transforms->second);
      if (!pickle_.get<PickleNone>(transforms->second) && !(list && list->items.empty()))
        fail("{}: {} is compressed or encrypted (transform_descriptors), which is not read: save without extensions",
             path_.string(), what);
    }
    return {file, number(required(info, "offset", what), "the offset of " + what),
            number(required(info, "length", what), "the length of " + what)};
  }

  DcpTensor tensor(const std::string& name, PickleId id) {
    const std::string what = "'" + shown(name) + "'";
    const Fields found = fields(id, kTensor, what);
    DcpTensor tensor{numbers(required(found, "size", what), "the size of " + what), {}, {}};
    tensor.dtype = dtype(required(found, "properties", what), what);
    const PickleList* chunks = pickle_.get<PickleList>(required(found, "chunks", what));
    if (!chunks) refuse("{} has no list of chunks", what);
    for (const PickleId chunk : chunks->items) tensor.chunks.push_back(read_chunk(name, tensor.shape, chunk, what));
    return tensor;
  }

  // (dtype, layout, requires_grad, memory format, pin_memory); only the first is of use.
  std::string dtype(PickleId id, const std::string& what) {
    const PickleObject* object = pickle_.get<PickleObject>(id);
    if (!object || (object->name != kProperties && object->name != kProperties21) || !object->state)
      refuse("the properties of {} are missing", what);
    const PickleTuple* state = pickle_.get<PickleTuple>(*object->state);
    const PickleName* name = state && !state->items.empty() ? pickle_.get<PickleName>(state->items[0]) : nullptr;
    if (!name || !is_dtype(name->text)) refuse("the element type of {} is missing", what);
    return name->text;
  }

  DcpChunk read_chunk(const std::string& name, const std::vector<int64_t>& shape, PickleId id,
                      const std::string& what) {
    const Fields found = fields(id, kChunk, "a chunk of " + what);
    DcpChunk chunk{numbers(required(found, "offsets", what), "the offset of a chunk of " + what),
                   numbers(required(found, "sizes", what), "the size of a chunk of " + what),
                   {}};
    bool inside = chunk.offsets.size() == shape.size() && chunk.sizes.size() == shape.size();
    for (size_t d = 0; inside && d < shape.size(); ++d)
      inside = chunk.offsets[d] <= shape[d] && chunk.sizes[d] <= shape[d] - chunk.offsets[d];
    if (!inside)
      refuse("the chunk {} from {} on exceeds {} {}", fmt::join(chunk.sizes, "x"), fmt::join(chunk.offsets, ","), what,
             fmt::join(shape, "x"));
    chunk.place = take_place(name, chunk.offsets,
                             fmt::format("the chunk of {} from [{}] on", what, fmt::join(chunk.offsets, ", ")));
    return chunk;
  }

  MetadataPickle& pickle_;
  const fs::path& path_;
  std::map<Place, PickleId> places_;
};

}  // namespace

DcpMetadata parse_dcp_metadata(std::span<const std::byte> bytes, const fs::path& path) {
  MetadataPickle pickle(bytes, path);
  const PickleId root = pickle.run();
  return Reader(pickle, path).read(root);
}

}  // namespace partita::internal
