// Reads a Python pickle without executing it. A pickle is a program, and a general unpickler calls whatever its author
// named; this machine only builds a graph of plain values. Which names are allowed, and what a call of one means, is
// decided by a derived class per kind of file; every other name is refused where it occurs, before it has any effect.
//
//   class MyPickle final : public PickleMachine {
//     PickleUse use_of(std::string_view name) const override { return name == "torch.Size" ? ... }
//     PickleId call(const std::string& name, const std::vector<PickleId>& arguments) override { ... }
//   };
//   MyPickle pickle(bytes, path, "only a dictionary of tensors is read");
//   const PickleId root = pickle.run();
//
// (Opcodes: Python's Lib/pickletools.py, protocols 2 to 5.) Values refer to each other by index, so a cycle or a deep
// nest costs nothing here; whoever follows references must bound how far.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "partita/base/error.h"
#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

using PickleId = size_t;

struct PickleNone {};
struct PickleName {
  std::string text;  // module.name, one that is known
};
struct PickleTuple {
  std::vector<PickleId> items;
};
struct PickleList {
  std::vector<PickleId> items;
};
struct PickleDict {
  std::vector<std::pair<PickleId, PickleId>> items;  // in order; keys may repeat
};
// An object of a known class that has not been constructed: its class and the state that it would be given.
struct PickleObject {
  std::string name;
  std::optional<PickleId> state;
};
// Something that the reader has no use for: an object of an unknown class, bytes, a set.
struct PickleOpaque {
  std::string what;
};
struct PickleStorage {
  ElementType type = ElementType::f32;
  std::string key;
  int64_t count = 0;
};
// Element [i, j] is element offset + i strides[0] + j strides[1] of the storage.
struct PickledTensor {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape, strides;  // same length
  std::string storage;                  // key of the storage: the archive's file PREFIX/data/KEY
  int64_t storage_count = 0;            // elements in the storage
  int64_t offset = 0;
};
// Large, and rare among the values of a pickle.
using PickledTensorPointer = std::unique_ptr<const PickledTensor>;
using PickleValue = std::variant<PickleNone, bool, int64_t, double, std::string, PickleName, PickleTuple, PickleList,
                                 PickleDict, PickleObject, PickleOpaque, PickleStorage, PickledTensorPointer>;

enum class PickleUse : uint8_t {
  refused,
  known,   // calls of it are given to call()
  opaque,  // it, and what is made by it, is a PickleOpaque
};

class PickleMachine {
 public:
  // containers: what a dictionary of tensors needs. objects: also instances with a state, bytes, sets, large integers.
  enum class Opcodes : uint8_t { containers, objects };

  // `bytes` and `path` must outlive this. `advice` ends every message.
  PickleMachine(std::span<const std::byte> bytes, const std::filesystem::path& path, std::string_view advice,
                Opcodes opcodes)
      : bytes_(bytes), path_(path), advice_(advice), opcodes_(opcodes) {}
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;
  virtual ~PickleMachine() = default;

  // The pickle's value. Error: an unknown opcode or a refused name (with its position), a damaged pickle.
  PickleId run();

  [[nodiscard]] const PickleValue& value(PickleId id) const { return values_[id]; }
  // nullptr: another kind of value.
  template <class T>
  [[nodiscard]] T* get(PickleId id) {
    return std::get_if<T>(&values_[id]);
  }
  // Error: another kind of value; `expected` is for the message.
  template <class T>
  [[nodiscard]] T& as(PickleId id, std::string_view expected) {
    T* value = get<T>(id);
    if (!value) refuse("{} was expected", expected);
    return *value;
  }
  // The numbers of a tuple that describes a tensor. Error: more of them than a tensor has dimensions.
  [[nodiscard]] std::vector<int64_t> integers(PickleId tuple, std::string_view what);

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(fmt::format(format, std::forward<Args>(args)...));
  }
  // A text that many values copy, so that a pickle could name a long one many times: a name, a key. Error: more than
  // kLongestName bytes.
  [[nodiscard]] const std::string& short_text(PickleId id, std::string_view what);
  static constexpr size_t kLongestName = 255;
  // Untrusted text, shortened to one printable line.
  [[nodiscard]] static std::string shown(std::string_view text);

 protected:
  PickleId add(PickleValue);

  [[nodiscard]] virtual PickleUse use_of(std::string_view name) const = 0;
  // What a call of a known name with these arguments is, or an instance of it without a state. Called at that opcode.
  virtual PickleId call(const std::string& name, const std::vector<PickleId>& arguments) = 0;
  virtual PickleId persistent(PickleId id);

 private:
  [[noreturn]] void fail_at(const std::string& what) const;
  [[noreturn]] void refuse_opcode(uint8_t opcode) const;

  std::string_view take_bytes(uint64_t count);
  template <class T>
  T take();
  std::string take_line();

  void push(PickleValue value) { stack_.push_back(add(std::move(value))); }
  [[nodiscard]] PickleId top() const;
  PickleId pop();
  std::vector<PickleId> pop_to_mark();
  std::vector<PickleId> pop_count(size_t count);
  void memoize(uint32_t place) { memo_[place] = top(); }
  void recall(uint32_t place);

  void step(uint8_t opcode);
  bool step_container(uint8_t opcode);
  bool step_object(uint8_t opcode);
  void check_frame();
  void push_long(uint64_t count);
  void append(const std::vector<PickleId>& items);
  void set_items(const std::vector<PickleId>& items);
  void push_name(const std::string& module, const std::string& name);
  void push_name_of_stack();
  void call_of_stack();
  void build();

  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  std::string_view advice_;
  Opcodes opcodes_;
  size_t at_ = 0, opcode_at_ = 0;
  std::deque<PickleValue> values_;  // a deque keeps addresses stable
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, PickleId> memo_;
};

}  // namespace partita::internal
