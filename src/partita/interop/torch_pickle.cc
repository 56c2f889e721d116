#include "partita/interop/torch_pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "partita/base/error.h"
#include "partita/base/printable.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

// Opcodes, named as in pickletools.
enum : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyTuple = ')',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95
};

struct Named {
  uint8_t code;
  std::string_view name;
};
// Rejected opcodes, named for the error message.
constexpr std::array kRefused = {Named{'0', "POP"},
                                 Named{'1', "POP_MARK"},
                                 Named{'2', "DUP"},
                                 Named{'B', "BINBYTES"},
                                 Named{'C', "SHORT_BINBYTES"},
                                 Named{'F', "FLOAT"},
                                 Named{'I', "INT"},
                                 Named{'L', "LONG"},
                                 Named{'P', "PERSID"},
                                 Named{'S', "STRING"},
                                 Named{'V', "UNICODE"},
                                 Named{'d', "DICT"},
                                 Named{'g', "GET"},
                                 Named{'i', "INST"},
                                 Named{'l', "LIST"},
                                 Named{'o', "OBJ"},
                                 Named{'p', "PUT"},
                                 Named{0x81, "NEWOBJ"},
                                 Named{0x82, "EXT1"},
                                 Named{0x83, "EXT2"},
                                 Named{0x84, "EXT4"},
                                 Named{0x8b, "LONG4"},
                                 Named{0x8e, "BINBYTES8"},
                                 Named{0x8f, "EMPTY_SET"},
                                 Named{0x90, "ADDITEMS"},
                                 Named{0x91, "FROZENSET"},
                                 Named{0x92, "NEWOBJ_EX"},
                                 Named{0x96, "BYTEARRAY8"},
                                 Named{0x97, "NEXT_BUFFER"},
                                 Named{0x98, "READONLY_BUFFER"}};

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

bool is_known(std::string_view name) {
  return name == kOrderedDict || name == kRebuildTensor || name == kRebuildParameter ||
         std::ranges::find(kStorages, name, &StorageType::name) != kStorages.end();
}

// Values can refer to each other through the memo, so containers hold indices into one list.
using Id = size_t;
struct None {};
struct Name {
  std::string text;  // module.name, one of the accepted ones
};
struct Tuple {
  std::vector<Id> items;
};
struct List {
  std::vector<Id> items;
};
struct Dict {
  std::vector<std::pair<Id, Id>> items;
};
struct Storage {
  ElementType type;
  std::string key;
  int64_t count;
};
using Value = std::variant<None, bool, int64_t, double, std::string, Name, Tuple, List, Dict, Storage, PickledTensor>;

class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const fs::path& path) : bytes_(bytes), path_(path) {}

  std::vector<PickledTensor> run() {
    if (bytes_.empty() || take<uint8_t>() != kProto) refuse("it does not begin as one");
    if (const int protocol = take<uint8_t>(); protocol < 2 || protocol > 5)
      refuse("its protocol is {}, known are 2 to 5", protocol);
    for (;;) {
      opcode_at_ = at_;
      const auto opcode = take<uint8_t>();
      if (opcode == kStop) break;
      step(opcode);
    }
    if (stack_.size() != 1 || !marks_.empty()) refuse("it ends with {} values instead of 1", stack_.size());
    if (at_ != bytes_.size()) refuse("{} bytes follow its end", bytes_.size() - at_);
    return tensors(stack_.back());
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{} is refused: its pickle, at byte {}: {}: only a dictionary of tensors is read, use safetensors instead",
         path_.string(), opcode_at_, fmt::format(format, std::forward<Args>(args)...));
  }

  // -- bytes
  std::string_view take_bytes(uint64_t count) {
    if (count > bytes_.size() - at_) refuse("{} bytes should follow, {} do (cut short?)", count, bytes_.size() - at_);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return text;
  }
  template <class T>
  T take() {
    T value{};
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string take_line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const size_t length = rest.find('\n');
    if (length == std::string_view::npos) refuse("a line does not end (cut short?)");
    at_ += length + 1;
    return std::string(rest.substr(0, length));
  }

  // -- stack
  void push(Value value) {
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
  }
  Id top() const {
    if (stack_.size() <= bottom()) refuse("a value is missing on its stack");
    return stack_.back();
  }
  Id pop() {
    const Id id = top();
    stack_.pop_back();
    return id;
  }
  // Pops stop at the last mark.
  size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) refuse("a mark is missing on its stack");
    std::vector<Id> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<Id> pop_count(size_t count) {
    std::vector<Id> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  template <class T>
  T& as(Id id, std::string_view expected) {
    T* value = std::get_if<T>(&values_[id]);
    if (!value) refuse("{} was expected", expected);
    return *value;
  }

  void memoize(uint32_t place) { memo_[place] = top(); }
  void recall(uint32_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse("its memo holds nothing at {}", place);
    stack_.push_back(found->second);
  }

  // -- opcodes
  void step(uint8_t opcode) {
    switch (opcode) {
      case kFrame:
        return check_frame();
      case kMark:
        return marks_.push_back(stack_.size());
      case kNone:
        return push(None{});
      case kNewTrue:
        return push(true);
      case kNewFalse:
        return push(false);
      case kBinInt:
        return push(int64_t{take<int32_t>()});
      case kBinInt1:
        return push(int64_t{take<uint8_t>()});
      case kBinInt2:
        return push(int64_t{take<uint16_t>()});
      case kLong1:
        return push(take_long());
      case kBinFloat:
        return push(std::bit_cast<double>(__builtin_bswap64(take<uint64_t>())));
      case kShortBinString:
      case kShortBinUnicode:
        return push(std::string(take_bytes(take<uint8_t>())));
      case kBinString:
      case kBinUnicode:
        return push(std::string(take_bytes(take<uint32_t>())));
      case kBinUnicode8:
        return push(std::string(take_bytes(take<uint64_t>())));
      case kEmptyTuple:
        return push(Tuple{});
      case kTuple1:
        return push(Tuple{pop_count(1)});
      case kTuple2:
        return push(Tuple{pop_count(2)});
      case kTuple3:
        return push(Tuple{pop_count(3)});
      case kTuple:
        return push(Tuple{pop_to_mark()});
      case kEmptyList:
        return push(List{});
      case kAppend:
        return append(pop_count(1));
      case kAppends:
        return append(pop_to_mark());
      case kEmptyDict:
        return push(Dict{});
      case kSetItem:
        return set_items(pop_count(2));
      case kSetItems:
        return set_items(pop_to_mark());
      case kBinPut:
        return memoize(take<uint8_t>());
      case kLongBinPut:
        return memoize(take<uint32_t>());
      case kMemoize:
        return memoize(static_cast<uint32_t>(memo_.size()));
      case kBinGet:
        return recall(take<uint8_t>());
      case kLongBinGet:
        return recall(take<uint32_t>());
      case kGlobal:
        return push_global();
      case kStackGlobal:
        return push_name_of_stack();
      case kBinPersId:
        return push(storage_of(pop()));
      case kReduce:
        return call();
      case kBuild:
        return build();
      default:
        refuse_opcode(opcode);
    }
  }

  [[noreturn]] void refuse_opcode(uint8_t opcode) const {
    const auto found = std::ranges::find(kRefused, opcode, &Named::code);
    refuse("the opcode {:#04x}{} is not allowed", opcode,
           found == kRefused.end() ? "" : fmt::format(" ({})", found->name));
  }

  void check_frame() {
    const auto length = take<uint64_t>();
    if (length > bytes_.size() - at_)
      refuse("a frame of {} bytes, {} follow (cut short?)", length, bytes_.size() - at_);
  }
  int64_t take_long() {
    const size_t count = take<uint8_t>();
    if (count > 8) refuse("a number of {} bytes", count);
    const std::string_view bytes = take_bytes(count);
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;  // sign extension
    std::memcpy(&value, bytes.data(), count);
    return static_cast<int64_t>(value);
  }
  void append(std::vector<Id> items) {
    List& list = as<List>(top(), "a list");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }
  void set_items(std::vector<Id> items) {
    if (items.size() % 2 != 0) refuse("a key without a value");
    Dict& dict = as<Dict>(top(), "a dictionary");
    for (size_t i = 0; i < items.size(); i += 2) dict.items.emplace_back(items[i], items[i + 1]);
  }

  void push_global() {
    const std::string module = take_line(), name = take_line();
    push_name(module, name);
  }
  void push_name(const std::string& module, const std::string& name) {
    std::string full = module + "." + name;
    if (!is_known(full)) refuse("the name {} is not allowed", shown(full));
    push(Name{std::move(full)});
  }
  void push_name_of_stack() {
    const std::vector<Id> names = pop_count(2);
    push_name(as<std::string>(names[0], "a module's name"), as<std::string>(names[1], "a name"));
  }
  // Untrusted text is shortened to one printable line in messages.
  static std::string shown(std::string_view text) { return printable_line(text.substr(0, 100)); }

  // ("storage", torch.FloatStorage, key, device, elements)
  Storage storage_of(Id id) {
    const std::vector<Id> items = as<Tuple>(id, "a persistent id that is a tuple").items;
    if (items.size() != 5 || as<std::string>(items[0], "the word storage") != "storage")
      refuse("a persistent id that is not a storage");
    const std::string& type = as<Name>(items[1], "the type of a storage").text;
    const auto found = std::ranges::find(kStorages, type, &StorageType::name);
    if (found == kStorages.end()) refuse("{} is not a type of storage", type);
    const int64_t count = as<int64_t>(items[4], "the elements of a storage");
    if (count < 0) refuse("a storage of {} elements", count);
    return {found->type, as<std::string>(items[2], "the key of a storage"), count};
  }

  void call() {
    const std::vector<Id> arguments = as<Tuple>(pop(), "arguments in a tuple").items;
    const std::string name = as<Name>(pop(), "a function").text;
    if (name == kOrderedDict && arguments.empty()) return push(Dict{});
    if (name == kRebuildTensor && (arguments.size() == 6 || arguments.size() == 7)) return push(tensor_of(arguments));
    if (name == kRebuildParameter && arguments.size() == 3) {
      require_empty(arguments[2], "hooks of a parameter");
      (void)as<PickledTensor>(arguments[0], "the tensor of a parameter");
      return stack_.push_back(arguments[0]);
    }
    refuse("a call of {} with {} arguments", name, arguments.size());
  }

  // (storage, offset, sizes, strides, requires_grad, hooks, metadata)
  PickledTensor tensor_of(const std::vector<Id>& arguments) {
    const Storage& storage = as<Storage>(arguments[0], "the storage of a tensor");
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
    return tensor;
  }
  std::vector<int64_t> integers(Id id, std::string_view what) {
    std::vector<int64_t> list;
    for (Id item : as<Tuple>(id, what).items) list.push_back(as<int64_t>(item, what));
    return list;
  }
  void require_empty(Id id, std::string_view what) {
    if (std::holds_alternative<None>(values_[id])) return;
    if (!as<Dict>(id, what).items.empty()) refuse("{} are not allowed", what);
  }

  // Discards the state_dict's {"_metadata": ...} (module versions), which does not affect its tensors.
  void build() {
    (void)as<Dict>(pop(), "a state that is a dictionary");
    (void)as<Dict>(top(), "a dictionary with a state");
  }

  // -- the result
  std::vector<PickledTensor> tensors(Id root) {
    std::vector<PickledTensor> list;
    std::set<std::string, std::less<>> names;
    for (const auto& [key, value] : as<Dict>(root, "a dictionary of tensors").items) {
      const std::string& name = as<std::string>(key, "a name of a tensor");
      if (!names.insert(name).second) refuse("the name '{}' occurs twice", shown(name));
      if (!std::holds_alternative<PickledTensor>(values_[value])) refuse("'{}' is not a tensor", shown(name));
      list.push_back(std::get<PickledTensor>(values_[value]));
      list.back().name = name;
    }
    return list;
  }

  std::span<const std::byte> bytes_;
  const fs::path& path_;
  size_t at_ = 0, opcode_at_ = 0;
  std::deque<Value> values_;  // a deque keeps addresses stable
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, Id> memo_;
};

}  // namespace

std::vector<PickledTensor> unpickle_tensors(std::span<const std::byte> pickle, const fs::path& path) {
  return Unpickler(pickle, path).run();
}

}  // namespace partita::internal
