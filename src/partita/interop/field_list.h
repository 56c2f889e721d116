// The known fields of JSON files written by other projects, and how each is handled: one list per kind of file. The
// file's reader uses it, and a test compares it with the classes of transformers and PEFT.
//
//   constexpr std::array kFields = {KnownField{"n_layer", FieldUse::read}, KnownField{"use_cache", FieldUse::harmless},
//                                   KnownField{"mlp_bias", FieldUse::only, "false", "no biases of the MLP"}};
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace partita::internal {

enum class FieldUse : uint8_t {
  read,      // its value is used
  harmless,  // does not affect what is computed here
  only,      // affects it, and only one value is supported
};

struct KnownField {
  std::string_view name;
  FieldUse use;
  // For FieldUse::only: the supported value as JSON (null and a missing field are always supported; if it is false, so
  // is anything empty), and what other values mean, for the error message.
  std::string_view only = "";
  std::string_view why = "";
};

// nullptr: not in the list.
[[nodiscard]] inline const KnownField* find_field(std::span<const KnownField> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &KnownField::name);
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace partita::internal
