// Lists of the fields that other projects' JSON files may hold, and what each means here: one list for each kind of
// file, which its reader works through and a test compares with the classes of transformers and PEFT.
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
  harmless,  // changes nothing in what is computed here
  only,      // changes it, and one value is supported
};

struct KnownField {
  std::string_view name;
  FieldUse use;
  // Of FieldUse::only: the supported value as JSON (null and a missing field always are; where it is false, so is
  // whatever is empty), and what another value means, for the message.
  std::string_view only = "";
  std::string_view why = "";
};

// nullptr: not on the list.
[[nodiscard]] inline const KnownField* find_field(std::span<const KnownField> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &KnownField::name);
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace partita::internal
