#include "partita/tokenizer/formats/json_node.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/json.h"

namespace partita::internal {

JsonNode::JsonNode(const json& value, std::string origin, std::string path)
    : value_(value), origin_(std::move(origin)), path_(std::move(path)) {
  if (!value_.is_object()) fail("{}: an object expected, found {}", place(), shown(value_));
}

void JsonNode::allow_only(std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : value_.items()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      fail("{}: {} is not supported (found {})", origin_, path_of(name), shown(value));
    }
  }
}

void JsonNode::expect(const char* name, std::initializer_list<json> supported) const {
  const auto found = value_.find(name);
  if (found == value_.end()) return;
  if (std::find(supported.begin(), supported.end(), *found) == supported.end()) {
    fail("{}: {} = {} is not supported: {} expected", origin_, path_of(name), shown(*found),
         json(*supported.begin()).dump());
  }
}

const JsonNode::json& JsonNode::at(const char* name, bool (json::*is)() const, std::string_view kind) const {
  const auto found = value_.find(name);
  if (found == value_.end()) fail("{}: {} is missing ({} expected)", origin_, path_of(name), kind);
  if (!((*found).*is)()) fail("{}: {}: {} expected, found {}", origin_, path_of(name), kind, shown(*found));
  return *found;
}

bool JsonNode::boolean_or(const char* name, bool otherwise) const { return has(name) ? boolean(name) : otherwise; }

std::string JsonNode::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + '.' + std::string(name);
}

std::string JsonNode::shown(const json& value) { return json_excerpt(value); }

}  // namespace partita::internal
