// A value in a manifest, with checks of its type and range. Error messages name it as "tensors[3].shape[1]".
//
//   const StoredField root(json, "");
//   manifest.ranks = root.at("ranks").integer(1, 1000000);
//   root.at("files").each([&](const StoredField& file) { names.push_back(file.at("name").text()); });
//
// Every error is Damaged: the program itself never writes such values.
#pragma once
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "partita/base/json.h"
#include "partita/checkpoint/damage.h"

namespace partita::internal {

class StoredField {
 public:
  // `value` must outlive this object.
  StoredField(const nlohmann::json& value, std::string name) : value_(value), name_(std::move(name)) {}

  [[nodiscard]] bool has(const char* key) const { return value_.is_object() && value_.contains(key); }
  [[nodiscard]] StoredField at(const char* key) const {
    if (!name_.empty()) (void)object();
    if (!has(key)) damaged("{} has no '{}'", name_.empty() ? "it" : name_, key);
    return {value_[key], name_.empty() ? key : name_ + "." + key};
  }
  [[nodiscard]] int64_t integer(int64_t least, int64_t most) const {
    const bool large = value_.is_number_unsigned() && value_.get<uint64_t>() > uint64_t{INT64_MAX};
    if (!value_.is_number_integer() || large || value_.get<int64_t>() < least || value_.get<int64_t>() > most)
      refuse(fmt::format("an integer from {} to {}", least, most));
    return value_.get<int64_t>();
  }
  [[nodiscard]] double number() const {
    if (!value_.is_number() || !std::isfinite(value_.get<double>())) refuse("a number");
    return value_.get<double>();
  }
  [[nodiscard]] bool boolean() const {
    if (!value_.is_boolean()) refuse("true or false");
    return value_.get<bool>();
  }
  [[nodiscard]] const std::string& text() const {
    if (!value_.is_string()) refuse("a text");
    return value_.get_ref<const std::string&>();
  }
  [[nodiscard]] const nlohmann::json& object() const {
    if (!value_.is_object()) refuse("an object");
    return value_;
  }
  [[nodiscard]] const nlohmann::json& raw() const { return value_; }
  template <class Visit>
  void each(const Visit& visit) const {
    if (!value_.is_array()) refuse("a list");
    for (size_t i = 0; i < value_.size(); ++i) visit(StoredField(value_[i], fmt::format("{}[{}]", name_, i)));
  }
  [[noreturn]] void refuse(const std::string& expected) const {
    damaged("{} is {}: expected {}", name_, json_excerpt(value_), expected);
  }

 private:
  const nlohmann::json& value_;
  std::string name_;
};

}  // namespace partita::internal
