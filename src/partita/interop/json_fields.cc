#include "partita/interop/json_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/base/nearest.h"

namespace partita::internal {
namespace {

using nlohmann::json;

// Whether a field's name suggests a name, version or id.
bool looks_like_bookkeeping(std::string_view name) {
  return name.starts_with('_') || name.ends_with("_token_id") || name.ends_with("_version") ||
         name.ends_with("_name") || name.ends_with("_path");
}

}  // namespace

bool says_nothing(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

bool is_supported(const KnownField& field, const json& value) {
  return value.is_null() || value == parse_json(field.only, field.name) ||
         (field.only == "false" && says_nothing(value));
}

json parse_json_object(std::string_view text, const std::filesystem::path& path) {
  json root = parse_json(text, path.string());
  if (!root.is_object()) fail("{}: expected a JSON object, found {}", path.string(), json_excerpt(root));
  return root;
}

const json& JsonFields::value_of(std::string_view name) const {
  static const json kNull;
  const auto found = object_.find(name);
  return found == object_.end() ? kNull : *found;
}

bool JsonFields::has(std::string_view name) const { return !value_of(name).is_null(); }

const json& JsonFields::raw(std::string_view name) const {
  const KnownField* field = find_field(known_, name);
  PARTITA_CHECK(field != nullptr && field->use == FieldUse::read, "{} is not on the list of fields that are read",
                name);
  return value_of(name);
}

int64_t JsonFields::integer(std::string_view name, std::optional<int64_t> otherwise) const {
  const json& value = raw(name);
  if (value.is_null()) return otherwise ? *otherwise : (refuse_missing(name), 0);
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}))
    refuse(name, "a whole number");
  return value.get<int64_t>();
}

double JsonFields::number(std::string_view name, std::optional<double> otherwise) const {
  const json& value = raw(name);
  if (value.is_null()) return otherwise ? *otherwise : (refuse_missing(name), 0);
  if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(name, "a number");
  return value.get<double>();
}

bool JsonFields::boolean(std::string_view name, bool otherwise) const {
  const json& value = raw(name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(name, "true or false");
  return value.get<bool>();
}

void JsonFields::require_one_of(std::string_view name, std::span<const char* const> allowed) const {
  const json& value = raw(name);
  if (value.is_null()) return;
  if (value.is_string() && std::ranges::find(allowed, value.get<std::string>()) != allowed.end()) return;
  refuse(name, fmt::format("{}", fmt::join(allowed, ", ")));
}

void JsonFields::require_supported() const {
  for (const KnownField& field : known_) {
    if (field.use != FieldUse::only || is_supported(field, value_of(field.name))) continue;
    refuse(field.name, field.only == "false" ? "false or null" : field.only, field.why);
  }
}

void JsonFields::report_unknown(std::vector<std::string>& warnings) const {
  for (const auto& [name, value] : object_.items())
    if (find_field(known_, name) == nullptr && !says_nothing(value))
      warnings.push_back(
          fmt::format("{}: the unknown field {} = {} is ignored", path_.string(), place_ + name, json_excerpt(value)));
}

void JsonFields::refuse_unknown(std::vector<std::string>& warnings) const {
  for (const auto& [name, value] : object_.items()) {
    if (find_field(known_, name) != nullptr || says_nothing(value)) continue;
    if (looks_like_bookkeeping(name)) {
      warnings.push_back(
          fmt::format("{}: the unknown field {} = {} is ignored", path_.string(), place_ + name, json_excerpt(value)));
      continue;
    }
    std::vector<std::string> names;
    for (const KnownField& field : known_) names.emplace_back(field.name);
    const std::string near = nearest(name, names);
    fail("{}: the field {} = {} is not known, and may change what is computed{}: remove it if it does not",
         path_.string(), place_ + name, json_excerpt(value), near.empty() ? "" : " (" + near + " is known)");
  }
}

void JsonFields::refuse(std::string_view name, std::string_view supported, std::string_view why) const {
  fail("{}: {} is {}, supported: {}{}{}", path_.string(), place_ + std::string(name), json_excerpt(value_of(name)),
       supported, why.empty() ? "" : "; ", why);
}

void JsonFields::refuse_missing(std::string_view name) const {
  fail("{}: {} is missing", path_.string(), place_ + std::string(name));
}

}  // namespace partita::internal
