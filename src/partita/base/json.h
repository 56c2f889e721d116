// The one way to read JSON text, whoever wrote it. Reading, copying, comparing and writing a value all call themselves
// once per level of nesting, so a limit on the depth is what keeps a hostile file from overflowing the stack.
//
//   const nlohmann::json root = read_json(folder / "config.json");
//   const nlohmann::json line = parse_json(text, "metrics.jsonl:12");
//   if (const auto value = try_parse_json(text); value && value->is_string()) ...
//
// Every error names the origin: "config.json:3:14: not valid JSON: ...".
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

inline constexpr int kNestingLimit = 64;                       // of objects and arrays in each other
inline constexpr int64_t kLargestJsonFile = int64_t{1} << 30;  // a value takes some ten times the bytes of its text

// `origin`: a file, or what else the text is from. Error: not JSON (with line and column; Python's NaN and Infinity are
// named), nested more than kNestingLimit deep, a key that occurs twice in one object, a Git LFS pointer.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view origin);

// The same of a regular file, which it must be: a pipe or device that a folder holds under the name would be waited
// for. Error: also those of read_file, and more than kLargestJsonFile bytes.
[[nodiscard]] nlohmann::json read_json(const std::filesystem::path& path);

// Nothing where parse_json would fail.
[[nodiscard]] std::optional<nlohmann::json> try_parse_json(std::string_view text);

// A value as text of at most some 60 characters, for messages.
[[nodiscard]] std::string json_excerpt(const nlohmann::json& value);

}  // namespace partita::internal
