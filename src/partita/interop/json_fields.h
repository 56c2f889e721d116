// One object of a JSON file that others wrote (config.json, adapter_config.json): its fields are taken one by one by a
// list of those that are known (field_list.h), and none is passed over in silence.
//
//   JsonFields fields(root, "", path, kLlamaFields);
//   fields.require_supported();                     // each field of FieldUse::only has its one value
//   m.layers = fields.integer("num_hidden_layers", 32);
//   fields.report_unknown(warnings);                // a line for each field that the list does not have
//
// null is the same as a missing field. Errors name the file, the field and its value, and what is supported.
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

// null, false and what is empty: what a writer puts where a feature is not used.
[[nodiscard]] bool says_nothing(const nlohmann::json& value);

// Whether a field of FieldUse::only has its value, or none.
[[nodiscard]] bool is_supported(const KnownField& field, const nlohmann::json& value);

// The object that `text` is. Error: it is something else; `path` is for the message.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text, const std::filesystem::path& path);

class JsonFields {
 public:
  // `object`, `path` and `known` outlive this. `place` is put before each field's name in messages ("rope_scaling.").
  JsonFields(const nlohmann::json& object, std::string place, const std::filesystem::path& path,
             std::span<const KnownField> known)
      : object_(object), place_(std::move(place)), path_(path), known_(known) {}

  [[nodiscard]] bool has(std::string_view name) const;
  // null where the field is missing. The name is on the list as one that is read.
  [[nodiscard]] const nlohmann::json& raw(std::string_view name) const;

  // A missing field has the value `otherwise`; nullopt: it must be there.
  [[nodiscard]] int64_t integer(std::string_view name, std::optional<int64_t> otherwise) const;
  [[nodiscard]] double number(std::string_view name, std::optional<double> otherwise) const;  // finite
  [[nodiscard]] bool boolean(std::string_view name, bool otherwise) const;
  // Error unless it is missing or one of several texts.
  void require_one_of(std::string_view name, std::span<const char* const> allowed) const;

  // Error: a field of FieldUse::only has another value.
  void require_supported() const;

  // Adds a warning for each field that is not on the list and says something (not null, false or empty).
  void report_unknown(std::vector<std::string>& warnings) const;
  // Error for the first of them, but for those that are called like bookkeeping (private, versions, paths, token ids):
  // these add a warning.
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
