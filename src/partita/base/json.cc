#include "partita/base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/foreign_format.h"

namespace partita::internal {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// ":3:14": line and column of byte `at` (counted from 1, as in the parser).
std::string line_and_column(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at > 0 ? at - 1 : 0);
  const size_t newline = before.rfind('\n');
  return fmt::format(":{}:{}", 1 + std::ranges::count(before, '\n'),
                     newline == std::string_view::npos ? before.size() + 1 : before.size() - newline);
}

// Strips the library's prefix: "[json.exception.parse_error.101] parse error at line 1, column 2: ".
std::string_view reason(std::string_view what) {
  if (const size_t bracket = what.find("] "); what.starts_with('[') && bracket != std::string_view::npos)
    what.remove_prefix(bracket + 2);
  if (const size_t colon = what.find(": "); what.starts_with("parse error at ") && colon != std::string_view::npos)
    what.remove_prefix(colon + 2);
  return what;
}

std::string_view hint(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(std::min(at > 0 ? at - 1 : 0, text.size()));
  if (rest.starts_with("NaN") || rest.starts_with("Infinity"))
    return " (Python's NaN and Infinity are not JSON: write a number or null)";
  return "";
}

}  // namespace

json parse_json(std::string_view text, std::string_view origin) {
  refuse_lfs_pointer(text, origin, "JSON");
  std::vector<std::unordered_set<std::string>> keys;  // per open object
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kNestingLimit)
      fail("{}: objects and arrays are nested more than {} deep", origin, kNestingLimit);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get_ref<const std::string&>()).second)
      fail("{}: the name {} occurs twice in one object", origin, json_excerpt(value));
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& error) {
    fail("{}{}: not valid JSON: {}{}", origin, line_and_column(text, error.byte), reason(error.what()),
         hint(text, error.byte));
  } catch (const json::exception& error) {  // a number out of double's range
    fail("{}: not valid JSON: {}", origin, reason(error.what()));
  }
}

json read_json(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    fail("cannot read {}: it is not a regular file, a JSON file was expected", path.string());
  if (const auto bytes = fs::file_size(path, error); !error && bytes > uint64_t{kLargestJsonFile})
    fail("cannot read {}: it has {}, JSON files of at most {} are read", path.string(),
         human_bytes(static_cast<int64_t>(bytes)), human_bytes(kLargestJsonFile));
  return parse_json(read_file(path), path.string());
}

std::optional<json> try_parse_json(std::string_view text) {
  try {
    return parse_json(text, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string json_excerpt(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() <= 60) return text;
  size_t end = 57;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "...";
}

}  // namespace partita::internal
