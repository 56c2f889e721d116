#include "partita/text/json_line.h"

#include <simdjson.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {

struct JsonLineParser::Simdjson {
  simdjson::dom::parser dom;
  simdjson::ondemand::parser ondemand;
};

namespace {

// Replaces bytes that are not UTF-8, so that simdjson accepts the line and offsets stay the same.
constexpr char kPlaceholder = '?';

std::string_view kind_of(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY:
      return "an array";
    case Type::OBJECT:
      return "an object";
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "true or false";
    case Type::NULL_VALUE:
      return "null";
    case Type::INT64:
    case Type::UINT64:
    case Type::DOUBLE:
      return "a number";
  }
  return "something else";
}

// "found messages, id": some of an object's keys.
std::string found_keys(const simdjson::dom::object& object) {
  constexpr size_t kMostShown = 8, kLongestShown = 40;
  std::string text;
  size_t count = 0;
  for (const auto& [name, value] : object) {
    if (++count > kMostShown) continue;
    text += fmt::format("{}\"{}\"", count == 1 ? "found " : ", ", name.substr(0, kLongestShown));
  }
  if (count == 0) return "the object has no keys";
  return count > kMostShown ? fmt::format("{} and {} more", text, count - kMostShown) : text;
}

std::string syntax_message(std::string_view line, simdjson::error_code error) {
  const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  const std::string_view rest = line.substr(begin, line.find_last_not_of(" \t\r\n") + 1 - begin);
  if (rest == "{" || rest == "[" || rest == "[{")
    return "not JSON lines: an object is spread over several lines, one object per line expected: jq -c '.[]' FILE (or "
           "'.', if it is not an array) makes them";
  if (error == simdjson::STRING_ERROR) return "not JSON: a string with a bad escape or a lone surrogate (\\ud800)";
  return fmt::format("not JSON: {}", simdjson::error_message(error));
}

}  // namespace

std::string invalid_utf8_message(char byte) {
  return fmt::format(
      "invalid UTF-8 (0x{:02X}): repair the text, or tokenize it with --invalid-utf8 replace or keep, or --bad-lines "
      "skip",
      static_cast<unsigned char>(byte));
}

JsonLineParser::JsonLineParser(std::vector<std::string> keys, InvalidUtf8 policy, std::string key_remedy)
    : keys_(std::move(keys)),
      key_remedy_(std::move(key_remedy)),
      policy_(policy),
      texts_(keys_.size()),
      simdjson_(std::make_unique<Simdjson>()) {}

JsonLineParser::JsonLineParser(JsonLineParser&&) noexcept = default;
JsonLineParser::~JsonLineParser() = default;

std::optional<JsonLineParser::Problem> JsonLineParser::parse(std::string_view line) {
  const auto invalid = find_invalid_utf8(line);
  if (!invalid) return parse_valid(line);
  switch (policy_) {
    case InvalidUtf8::replace:
      return parse_valid(replace_invalid_utf8(line));
    case InvalidUtf8::keep:
      return parse_keeping_bytes(line);
    case InvalidUtf8::error:
      break;
  }
  return Problem{*invalid, invalid_utf8_message(line[*invalid])};
}

std::optional<JsonLineParser::Problem> JsonLineParser::parse_valid(std::string_view line) {
  simdjson::dom::element root;
  if (const auto error = simdjson_->dom.parse(line.data(), line.size()).get(root)) {
    return Problem{0, syntax_message(line, error)};
  }
  simdjson::dom::object object;
  if (root.get(object))
    return Problem{0, fmt::format("an object expected, found {}{}", kind_of(root.type()),
                                  root.is_array() ? ": jq -c '.[]' FILE makes a line of each of its objects" : "")};
  std::vector<bool> found(keys_.size());
  for (const auto& [name, value] : object) {
    for (size_t key = 0; key < keys_.size(); ++key) {
      if (name != keys_[key]) continue;
      std::string_view text;
      if (value.get(text)) {
        return Problem{0, fmt::format("\"{}\": a string expected, found {}", keys_[key], kind_of(value.type()))};
      }
      texts_[key] = text;
      found[key] = true;
    }
  }
  const auto missing = std::find(found.begin(), found.end(), false);
  if (missing == found.end()) return std::nullopt;
  return Problem{0, fmt::format("no key \"{}\", {}{}{}", keys_[static_cast<size_t>(missing - found.begin())],
                                found_keys(object), key_remedy_.empty() ? "" : ": ", key_remedy_)};
}

std::optional<JsonLineParser::Problem> JsonLineParser::parse_keeping_bytes(std::string_view line) {
  std::string readable(line);
  for (auto bad = find_invalid_utf8(line); bad; bad = find_invalid_utf8(line, *bad + 1)) readable[*bad] = kPlaceholder;
  if (auto problem = parse_valid(readable)) return problem;
  // The line is valid: locate the strings in it, and read their bytes from the original line.
  const simdjson::padded_string padded(readable);
  auto document = simdjson_->ondemand.iterate(padded);
  for (auto field : document.get_object()) {
    const std::string_view name = field.unescaped_key();
    const auto key = std::find(keys_.begin(), keys_.end(), name);
    if (key == keys_.end()) continue;
    simdjson::ondemand::raw_json_string raw;
    if (field.value().get_raw_json_string().get(raw)) continue;
    const size_t begin = static_cast<size_t>(raw.raw() - padded.data());
    size_t end = begin;
    while (readable[end] != '"') end += readable[end] == '\\' ? 2 : 1;
    for (size_t k = 0; k < keys_.size(); ++k) {
      if (keys_[k] == name) unescape_keeping_bytes(line.substr(begin, end - begin), texts_[k]);
    }
  }
  return std::nullopt;
}

void JsonLineParser::unescape_keeping_bytes(std::string_view raw, std::string& out) {
  out.clear();
  for (size_t at = 0; at < raw.size();) {
    const size_t bad = find_invalid_utf8(raw, at).value_or(raw.size());
    // Escapes are ASCII, so an invalid byte is never inside one, and the text before it is a complete string.
    const std::string quoted = fmt::format("\"{}\"", raw.substr(at, bad - at));
    out += std::string_view(simdjson_->dom.parse(quoted));
    if (bad < raw.size()) out += raw[bad];
    at = bad + 1;
  }
}

}  // namespace partita::internal
