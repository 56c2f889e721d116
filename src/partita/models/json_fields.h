// One object of a configuration in JSON that others wrote (config.json, adapter_config.json): its fields are taken one by
// one, and at the end no field is left over that could have meant something.
//
//   JsonFields fields(root, "", path);
//   m.layers = fields.integer("n_layer", 12);
//   fields.require("attention_bias", false);        // the only value that is supported
//   fields.ignore(std::array{"use_cache"});
//   fields.check_unknown(warnings);
//
// null stands for a field that is not there. Errors name the file, the field and its value, and what is supported.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

// null, false and what is empty: what a writer puts where a feature is not used.
[[nodiscard]] bool says_nothing(const nlohmann::json& value);

// The object that `text` is. Error: it is none; `path` is for the message.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text, const std::filesystem::path& path);

class JsonFields {
 public:
  // `object` and `path` outlive this. `place` stands before each field's name in messages ("rope_scaling.").
  JsonFields(const nlohmann::json& object, std::string place, const std::filesystem::path& path)
      : object_(object), place_(std::move(place)), path_(path) {}

  [[nodiscard]] bool has(const char* name) const { return object_.contains(name) && !object_[name].is_null(); }
  [[nodiscard]] const nlohmann::json& raw(const char* name);

  // A field that is not there has the value `otherwise`; none: it must be there.
  [[nodiscard]] int64_t integer(const char* name, std::optional<int64_t> otherwise);
  [[nodiscard]] double number(const char* name, std::optional<double> otherwise);
  [[nodiscard]] bool boolean(const char* name, bool otherwise);

  // Error unless the field is not there or has this value; where that is false, what is empty does too.
  void require(const char* name, const nlohmann::json& only);
  // The same for several texts.
  void require_one_of(const char* name, std::span<const char* const> allowed);
  // Fields that change nothing.
  void ignore(std::span<const char* const> names) { known_.insert(names.begin(), names.end()); }

  // Of the fields that were not named so far: what says nothing is passed over, names of private fields, versions, paths
  // and token ids add a warning, and any other is an error.
  void check_unknown(std::vector<std::string>& warnings) const;

  [[noreturn]] void refuse(const char* name, std::string_view supported) const;

 private:
  [[noreturn]] void refuse_missing(const char* name) const;

  const nlohmann::json& object_;
  std::string place_;
  const std::filesystem::path& path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace partita
