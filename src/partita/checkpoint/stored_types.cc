#include "partita/checkpoint/stored_types.h"

#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/json.h"

namespace partita::internal {
namespace {

using nlohmann::json;

ElementType type_from(const std::string& name) {
  const auto type = parse_element_type(name);
  if (!type || (*type != ElementType::f32 && *type != ElementType::f16 && *type != ElementType::bf16))
    fail("stored_as has the element type {}: F32, F16 or BF16 expected", json_excerpt(name));
  return *type;
}

}  // namespace

ElementType StoredTypes::of(std::string_view name) const {
  const auto found = others.find(name);
  return found == others.end() ? usual : found->second;
}

json to_json(const StoredTypes& types) {
  if (types.others.empty()) return name_of(types.usual);
  json root = {{"usual", name_of(types.usual)}};
  for (const auto& [name, type] : types.others) root[std::string(name_of(type))].push_back(name);
  return root;
}

StoredTypes stored_types_from(const json& value) try {
  if (value.is_string()) return {.usual = type_from(value.get<std::string>())};
  if (!value.is_object()) fail("stored_as is {}: an element type or an object expected", json_excerpt(value));
  StoredTypes types;
  for (const auto& [key, item] : value.items()) {
    if (key == "usual") {
      types.usual = type_from(item.get<std::string>());
    } else {
      for (const json& name : item) types.others[name.get<std::string>()] = type_from(key);
    }
  }
  return types;
} catch (const json::exception&) {  // a value of the wrong type
  fail("stored_as is {}: names of tensors by element type expected", json_excerpt(value));
}

}  // namespace partita::internal
