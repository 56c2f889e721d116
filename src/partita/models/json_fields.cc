#include "partita/models/json_fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/nearest.h"

namespace partita {
namespace {

using nlohmann::json;

// Fields that hold names, versions and ids, by what they are called.
bool looks_like_bookkeeping(std::string_view name) {
  return name.starts_with('_') || name.ends_with("_token_id") || name.ends_with("_version") ||
         name.ends_with("_name") || name.ends_with("_path");
}

}  // namespace

bool says_nothing(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

json parse_json_object(std::string_view text, const std::filesystem::path& path) {
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& error) {
    fail("{} is not valid JSON: {}", path.string(), error.what());
  }
  if (!root.is_object()) fail("{} is no configuration: expected an object", path.string());
  return root;
}

const json& JsonFields::raw(const char* name) {
  static const json kNull;
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() ? kNull : *found;
}

int64_t JsonFields::integer(const char* name, std::optional<int64_t> otherwise) {
  const json& value = raw(name);
  if (value.is_null()) return otherwise ? *otherwise : (refuse_missing(name), 0);
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}))
    refuse(name, "a whole number");
  return value.get<int64_t>();
}

double JsonFields::number(const char* name, std::optional<double> otherwise) {
  const json& value = raw(name);
  if (value.is_null()) return otherwise ? *otherwise : (refuse_missing(name), 0);
  if (!value.is_number()) refuse(name, "a number");
  return value.get<double>();
}

bool JsonFields::boolean(const char* name, bool otherwise) {
  const json& value = raw(name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(name, "true or false");
  return value.get<bool>();
}

void JsonFields::require(const char* name, const json& only) {
  const json& value = raw(name);
  if (value.is_null() || value == only || (only == false && says_nothing(value))) return;
  refuse(name, only == false ? "false or null" : only.dump());
}

void JsonFields::require_one_of(const char* name, std::span<const char* const> allowed) {
  const json& value = raw(name);
  if (value.is_null()) return;
  if (value.is_string() && std::ranges::find(allowed, value.get<std::string>()) != allowed.end()) return;
  refuse(name, fmt::format("{}", fmt::join(allowed, ", ")));
}

void JsonFields::check_unknown(std::vector<std::string>& warnings) const {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || says_nothing(value)) continue;
    if (looks_like_bookkeeping(name)) {
      warnings.push_back(fmt::format("{}: the field {} is not known and is ignored", path_.string(), place_ + name));
      continue;
    }
    const std::vector<std::string> names(known_.begin(), known_.end());
    const std::string near = nearest(name, names);
    fail("{}: the field {} = {} is not known, and may change the model{}: remove it if it does not", path_.string(),
         place_ + name, value.dump(), near.empty() ? "" : " (" + near + " is known)");
  }
}

void JsonFields::refuse(const char* name, std::string_view supported) const {
  fail("{}: {} is {}, supported: {}", path_.string(), place_ + name, object_[name].dump(), supported);
}

void JsonFields::refuse_missing(const char* name) const { fail("{}: {} is missing", path_.string(), place_ + name); }

}  // namespace partita
