// One object of a foreign JSON file (config.json, adapter_config.json), read field by field against a list of known
// fields (field_list.h), so that no field is ignored silently.
//
//   JsonFields fields(root, "", path, kLlamaFields);
//   fields.require_supported();                     // every field of FieldUse::only has its supported value
//   m.layers = fields.integer("num_hidden_layers", 32);
//   fields.report_unknown(warnings);                // one warning per field that is not in the list
//
// null is equivalent to a missing field. Errors name the file, the field and its value, and what is supported.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/interop/field_list.h"

namespace partita::internal {

// True for null, false and empty values, which writers emit for unused features.
[[nodiscard]] bool says_nothing(const nlohmann::json& value);

// Whether a field of FieldUse::only has its supported value or is unset.
[[nodiscard]] bool is_supported(const KnownField& field, const nlohmann::json& value);

// Parses `text` as an object. Error: it is not one; `path` is for the message.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text, const std::filesystem::path& path);

class JsonFields {
 public:
  // `object`, `path` and `known` must outlive this. `place` prefixes field names in messages ("rope_scaling.").
  JsonFields(const nlohmann::json& object, std::string place, const std::filesystem::path& path,
             std::span<const KnownField> known)
      : object_(object), place_(std::move(place)), path_(path), known_(known) {}

  [[nodiscard]] bool has(std::string_view name) const;
  // null if the field is missing. The list must contain the name as FieldUse::read.
  [[nodiscard]] const nlohmann::json& raw(std::string_view name) const;

  // Returns `otherwise` if the field is missing; nullopt makes it required.
  [[nodiscard]] int64_t integer(std::string_view name, std::optional<int64_t> otherwise) const;
  [[nodiscard]] double number(std::string_view name, std::optional<double> otherwise) const;  // finite
  [[nodiscard]] bool boolean(std::string_view name, bool otherwise) const;
  // Error unless it is missing or one of the allowed strings.
  void require_one_of(std::string_view name, std::span<const char* const> allowed) const;

  // Error: a field of FieldUse::only has another value.
  void require_supported() const;

  // Adds a warning for each set field (not null, false or empty) that is not in the list.
  void report_unknown(std::vector<std::string>& warnings) const;
  // Error for the first unknown field, except for those whose names suggest bookkeeping (private, versions, paths,
  // token ids), which only add a warning.
  void refuse_unknown(std::vector<std::string>& warnings) const;

  [[noreturn]] void refuse(std::string_view name, std::string_view supported, std::string_view why = "") const;

 private:
  [[nodiscard]] const nlohmann::json& value_of(std::string_view name) const;
  [[noreturn]] void refuse_missing(std::string_view name) const;

  const nlohmann::json& object_;
  std::string place_;
  const std::filesystem::path& path_;
  std::span<const KnownField> known_;
};

}  // namespace partita::internal
