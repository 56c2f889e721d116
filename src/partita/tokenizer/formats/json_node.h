// JSON objects with their path in the file, for error messages: "t.json: model.vocab: an object expected".
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace partita::internal {

class JsonNode {
 public:
  using json = nlohmann::json;

  // The object at `path` in the file `origin`; "" is the root. Error: not an object.
  JsonNode(const json& value, std::string origin, std::string path);

  // Unknown fields could change the ids. Error: there is one.
  void allow_only(std::initializer_list<std::string_view> names) const;
  // Error: the field is set to a value not in `supported`.
  void expect(const char* name, std::initializer_list<json> supported) const;

  // Error: missing, or of another type.
  [[nodiscard]] const json& array(const char* name) const { return at(name, &json::is_array, "an array"); }
  [[nodiscard]] std::string string(const char* name) const { return at(name, &json::is_string, "a string"); }
  [[nodiscard]] int64_t integer(const char* name) const { return at(name, &json::is_number_integer, "an integer"); }
  [[nodiscard]] bool boolean(const char* name) const { return at(name, &json::is_boolean, "true or false"); }
  [[nodiscard]] JsonNode child(const char* name) const {
    return {at(name, &json::is_object, "an object"), origin_, path_of(name)};
  }
  [[nodiscard]] const json& at(const char* name, bool (json::*is)() const, std::string_view kind) const;
  // `otherwise` if the field is missing or null.
  [[nodiscard]] bool boolean_or(const char* name, bool otherwise) const;
  [[nodiscard]] bool has(const char* name) const { return value_.contains(name) && !value_[name].is_null(); }

  // Visits the objects of an array field in order.
  template <typename F>
  void for_each(const char* name, F visit) const {
    size_t index = 0;
    for (const json& item : array(name)) {
      visit(JsonNode(item, origin_, path_of(name) + '[' + std::to_string(index) + ']'));
      ++index;
    }
  }

  [[nodiscard]] const json& value() const { return value_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  // "t.json: pre_tokenizer", or with a field name.
  [[nodiscard]] std::string place() const { return path_.empty() ? origin_ : origin_ + ": " + path_; }
  [[nodiscard]] std::string path_of(std::string_view name) const;
  // A shortened value for messages.
  [[nodiscard]] static std::string shown(const json& value);

 private:
  const json& value_;
  std::string origin_, path_;
};

}  // namespace partita::internal
