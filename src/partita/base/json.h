// The only JSON reader, for input from any source. Reading, copying, comparing and writing a value all recurse once per
// nesting level, so a depth limit keeps hostile files from overflowing the stack.
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

inline constexpr int kNestingLimit = 64;                       // of objects and arrays
inline constexpr int64_t kLargestJsonFile = int64_t{1} << 30;  // parsed values are about ten times as large

// `origin`: the file or other source of the text. Error: not JSON (with line and column; Python's NaN and Infinity are
// named), nested more than kNestingLimit deep, a duplicate key in an object, a Git LFS pointer.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view origin);

// Reads a regular file; pipes and devices, which could block, are rejected. Error: also those of read_file, and more
// than kLargestJsonFile bytes.
[[nodiscard]] nlohmann::json read_json(const std::filesystem::path& path);

// nullopt where parse_json would fail.
[[nodiscard]] std::optional<nlohmann::json> try_parse_json(std::string_view text);

// A value as text of at most about 60 characters, for messages.
[[nodiscard]] std::string json_excerpt(const nlohmann::json& value);

}  // namespace partita::internal
