// One list of names per enumeration, for configuration files, help, checkpoints and messages.
//
//   template <>
//   struct EnumNames<Recompute> { static constexpr std::array kNames = {"none", "selective", "mlp", "full"}; };
//
//   name_of(Recompute::full);               // "full"
//   find_enum<Recompute>("full");           // Recompute::full; an unknown name: none
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace partita {

template <class Enum>
struct EnumNames;  // kNames: in the order of the values, which count from 0

template <class Enum>
concept NamedEnum = requires {
  EnumNames<Enum>::kNames;
};

template <NamedEnum Enum>
[[nodiscard]] constexpr const char* name_of(Enum value) {
  return EnumNames<Enum>::kNames[static_cast<size_t>(value)];
}

template <NamedEnum Enum>
[[nodiscard]] constexpr std::optional<Enum> find_enum(std::string_view name) {
  for (size_t i = 0; i < EnumNames<Enum>::kNames.size(); ++i)
    if (EnumNames<Enum>::kNames[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace partita
