#include "partita/interop/pickle_machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "partita/base/printable.h"

namespace partita::internal {
namespace {

// Opcodes, named as in pickletools.
enum : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
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
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96
};

struct Named {
  uint8_t code;
  std::string_view name;
};
// Opcodes that are refused, at least in a pickle of containers alone; named for the error message.
constexpr std::array kRefused = {Named{kPop, "POP"},
                                 Named{kPopMark, "POP_MARK"},
                                 Named{kDup, "DUP"},
                                 Named{kBinBytes, "BINBYTES"},
                                 Named{kShortBinBytes, "SHORT_BINBYTES"},
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
                                 Named{kNewObj, "NEWOBJ"},
                                 Named{0x82, "EXT1"},
                                 Named{0x83, "EXT2"},
                                 Named{0x84, "EXT4"},
                                 Named{kLong4, "LONG4"},
                                 Named{kBinBytes8, "BINBYTES8"},
                                 Named{kEmptySet, "EMPTY_SET"},
                                 Named{kAddItems, "ADDITEMS"},
                                 Named{kFrozenSet, "FROZENSET"},
                                 Named{kNewObjEx, "NEWOBJ_EX"},
                                 Named{kByteArray8, "BYTEARRAY8"},
                                 Named{0x97, "NEXT_BUFFER"},
                                 Named{0x98, "READONLY_BUFFER"}};

constexpr size_t kMostDimensions = 64;  // torch's own limit

}  // namespace

PickleId PickleMachine::run() {
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
  return stack_.back();
}

void PickleMachine::fail_at(const std::string& what) const {
  fail("{} is refused: its pickle, at byte {}: {}: {}", path_.string(), opcode_at_, what, advice_);
}

std::string PickleMachine::shown(std::string_view text) { return printable_line(text.substr(0, 100)); }

PickleId PickleMachine::add(PickleValue value) {
  values_.push_back(std::move(value));
  return values_.size() - 1;
}

PickleId PickleMachine::persistent(PickleId) { refuse("persistent ids are not allowed"); }

std::vector<int64_t> PickleMachine::integers(PickleId tuple, std::string_view what) {
  const std::vector<PickleId>& items = as<PickleTuple>(tuple, what).items;
  // A pickle may refer to one long tuple any number of times, and each time it would be copied.
  if (items.size() > kMostDimensions) refuse("{} has {} numbers", what, items.size());
  std::vector<int64_t> list;
  for (PickleId item : items) list.push_back(as<int64_t>(item, what));
  return list;
}

const std::string& PickleMachine::short_text(PickleId id, std::string_view what) {
  const std::string& text = as<std::string>(id, what);
  if (text.size() > kLongestName) refuse("{} has {} bytes, at most {} are read", what, text.size(), kLongestName);
  return text;
}

// -- bytes

std::string_view PickleMachine::take_bytes(uint64_t count) {
  if (count > bytes_.size() - at_) refuse("{} bytes should follow, {} do (cut short?)", count, bytes_.size() - at_);
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(count));
  at_ += static_cast<size_t>(count);
  return text;
}

template <class T>
T PickleMachine::take() {
  T value{};
  std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
  return value;
}

std::string PickleMachine::take_line() {
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
  const size_t length = rest.find('\n');
  if (length == std::string_view::npos) refuse("a line does not end (cut short?)");
  at_ += length + 1;
  return std::string(rest.substr(0, length));
}

// -- stack; pops stop at the last mark

PickleId PickleMachine::top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("a value is missing on its stack");
  return stack_.back();
}

PickleId PickleMachine::pop() {
  const PickleId id = top();
  stack_.pop_back();
  return id;
}

std::vector<PickleId> PickleMachine::pop_to_mark() {
  if (marks_.empty()) refuse("a mark is missing on its stack");
  std::vector<PickleId> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return items;
}

std::vector<PickleId> PickleMachine::pop_count(size_t count) {
  std::vector<PickleId> items(count);
  for (size_t i = count; i-- > 0;) items[i] = pop();
  return items;
}

void PickleMachine::recall(uint32_t place) {
  const auto found = memo_.find(place);
  if (found == memo_.end()) refuse("its memo holds nothing at {}", place);
  stack_.push_back(found->second);
}

// -- opcodes

void PickleMachine::step(uint8_t opcode) {
  switch (opcode) {
    case kFrame:
      return check_frame();
    case kNone:
      return push(PickleNone{});
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
      return push_long(take<uint8_t>());
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
    case kGlobal: {
      const std::string module = take_line(), name = take_line();
      return push_name(module, name);
    }
    case kStackGlobal:
      return push_name_of_stack();
    case kBinPersId:
      return stack_.push_back(persistent(pop()));
    case kReduce:
      return call_of_stack();
    case kBuild:
      return build();
    default:
      if (step_container(opcode)) return;
      if (opcodes_ == Opcodes::objects && step_object(opcode)) return;
      refuse_opcode(opcode);
  }
}

bool PickleMachine::step_container(uint8_t opcode) {
  switch (opcode) {
    case kMark:
      return marks_.push_back(stack_.size()), true;
    case kEmptyTuple:
      return push(PickleTuple{}), true;
    case kTuple1:
    case kTuple2:
    case kTuple3:
      return push(PickleTuple{pop_count(size_t{1} + opcode - kTuple1)}), true;
    case kTuple:
      return push(PickleTuple{pop_to_mark()}), true;
    case kEmptyList:
      return push(PickleList{}), true;
    case kAppend:
      return append(pop_count(1)), true;
    case kAppends:
      return append(pop_to_mark()), true;
    case kEmptyDict:
      return push(PickleDict{}), true;
    case kSetItem:
      return set_items(pop_count(2)), true;
    case kSetItems:
      return set_items(pop_to_mark()), true;
    case kBinPut:
      return memoize(take<uint8_t>()), true;
    case kLongBinPut:
      return memoize(take<uint32_t>()), true;
    case kMemoize:
      return memoize(static_cast<uint32_t>(memo_.size())), true;
    case kBinGet:
      return recall(take<uint8_t>()), true;
    case kLongBinGet:
      return recall(take<uint32_t>()), true;
    default:
      return false;
  }
}

bool PickleMachine::step_object(uint8_t opcode) {
  const auto bytes = [&](uint64_t count) {
    (void)take_bytes(count);
    push(PickleOpaque{"bytes"});
    return true;
  };
  switch (opcode) {
    case kPop:
      return (void)pop(), true;
    case kPopMark:
      return (void)pop_to_mark(), true;
    case kDup:
      return stack_.push_back(top()), true;
    case kShortBinBytes:
      return bytes(take<uint8_t>());
    case kBinBytes:
      return bytes(take<uint32_t>());
    case kBinBytes8:
    case kByteArray8:
      return bytes(take<uint64_t>());
    case kLong4:
      return push_long(take<uint32_t>()), true;
    case kEmptySet:
      return push(PickleOpaque{"a set"}), true;
    case kAddItems:
      return append(pop_to_mark()), true;
    case kFrozenSet:
      (void)pop_to_mark();
      return push(PickleOpaque{"a set"}), true;
    case kNewObj:
      return call_of_stack(), true;
    case kNewObjEx:
      (void)as<PickleDict>(pop(), "named arguments in a dictionary");
      return call_of_stack(), true;
    default:
      return false;
  }
}

void PickleMachine::refuse_opcode(uint8_t opcode) const {
  const auto found = std::ranges::find(kRefused, opcode, &Named::code);
  refuse("the opcode {:#04x}{} is not allowed", opcode,
         found == kRefused.end() ? "" : fmt::format(" ({})", found->name));
}

void PickleMachine::check_frame() {
  const auto length = take<uint64_t>();
  if (length > bytes_.size() - at_) refuse("a frame of {} bytes, {} follow (cut short?)", length, bytes_.size() - at_);
}

void PickleMachine::push_long(uint64_t count) {
  const std::string_view bytes = take_bytes(count);
  if (count > 8) {
    if (opcodes_ == Opcodes::containers) refuse("a number of {} bytes", count);
    return push(PickleOpaque{fmt::format("a number of {} bytes", count)});
  }
  uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;  // sign extension
  std::memcpy(&value, bytes.data(), count);
  push(static_cast<int64_t>(value));
}

void PickleMachine::append(const std::vector<PickleId>& items) {
  if (get<PickleOpaque>(top())) return;
  auto& list = as<PickleList>(top(), "a list").items;
  list.insert(list.end(), items.begin(), items.end());
}

void PickleMachine::set_items(const std::vector<PickleId>& items) {
  if (items.size() % 2 != 0) refuse("a key without a value");
  if (get<PickleOpaque>(top())) return;
  auto& dict = as<PickleDict>(top(), "a dictionary").items;
  for (size_t i = 0; i < items.size(); i += 2) dict.emplace_back(items[i], items[i + 1]);
}

void PickleMachine::push_name(const std::string& module, const std::string& name) {
  if (module.size() > kLongestName || name.size() > kLongestName)
    refuse("a name of {} and {} bytes, at most {} each are read", module.size(), name.size(), kLongestName);
  std::string full = module + "." + name;
  switch (use_of(full)) {
    case PickleUse::refused:
      refuse("the name {} is not allowed", shown(full));
    case PickleUse::known:
      return push(PickleName{std::move(full)});
    case PickleUse::opaque:
      return push(PickleOpaque{shown(full)});
  }
}

void PickleMachine::push_name_of_stack() {
  const std::vector<PickleId> names = pop_count(2);
  push_name(as<std::string>(names[0], "a module's name"), as<std::string>(names[1], "a name"));
}

void PickleMachine::call_of_stack() {
  const std::vector<PickleId>& arguments = as<PickleTuple>(pop(), "arguments in a tuple").items;
  const PickleId function = pop();
  if (const PickleOpaque* opaque = get<PickleOpaque>(function)) return push(PickleOpaque{opaque->what});
  stack_.push_back(call(as<PickleName>(function, "a function").text, arguments));
}

// A dictionary's state is discarded: it is the {"_metadata": ...} (module versions) of a state_dict.
void PickleMachine::build() {
  const PickleId state = pop();
  if (get<PickleOpaque>(top())) return;
  if (PickleObject* object = get<PickleObject>(top())) {
    if (object->state) refuse("a second state of {}", object->name);
    object->state = state;
    return;
  }
  (void)as<PickleDict>(state, "a state that is a dictionary");
  (void)as<PickleDict>(top(), "a dictionary with a state");
}

}  // namespace partita::internal
