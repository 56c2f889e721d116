// Formats of input files:
//
//   json_lines  one JSON object per line; the texts are the values of `json_keys`; blank lines are ignored
//   text        a file is one document, verbatim; with `separator`, each line equal to it ends a document
//
// Files may be compressed with gzip or zstd; "-" is standard input.
//
//   const auto files = expand_inputs({"data/*.jsonl", "extra.txt"});
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "partita/base/enum_names.h"

namespace partita {

enum class TextFormat : uint8_t { automatic, json_lines, text };
template <>
struct EnumNames<TextFormat> {
  static constexpr std::array kNames = {"auto", "jsonl", "text"};
};
enum class InvalidUtf8 : uint8_t { error, replace, keep };  // reject the document; write U+FFFD; pass the bytes through
template <>
struct EnumNames<InvalidUtf8> {
  static constexpr std::array kNames = {"error", "replace", "keep"};
};

struct TextInputOptions {
  // automatic: JSON lines for .jsonl, .json and .ndjson, also with .gz or .zst appended, and for standard input.
  TextFormat format = TextFormat::automatic;
  std::vector<std::string> json_keys = {"text"};
  std::optional<std::string> separator;  // a line in text files; "" is an empty line
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;
  // Longer documents are dropped: compressed and piped input may be arbitrarily long, memory is not.
  int64_t max_line_bytes = int64_t{128} << 20;  // per JSON line
  // Per text. Empty: kStreamedDocumentBytes if held in memory; plain files are mapped and have no limit.
  std::optional<int64_t> max_document_bytes;
  static constexpr int64_t kStreamedDocumentBytes = int64_t{1} << 30;
  // The limit for a document. mapped: it is in a plain regular file.
  [[nodiscard]] int64_t max_bytes(bool json, bool mapped) const {
    if (json) return max_line_bytes;
    return max_document_bytes.value_or(mapped ? std::numeric_limits<int64_t>::max() : kStreamedDocumentBytes);
  }
  std::string key_remedy = "name it with --json-keys";  // for messages about a missing key
};

// Files that match the patterns (glob(7)), sorted by name within each pattern; "-" is kept. Error: a pattern without a
// match, a folder. A file given more than once, under any name, is read once, with a warning.
[[nodiscard]] std::vector<std::filesystem::path> expand_inputs(const std::vector<std::string>& patterns);

// Whether the file name indicates compression.
[[nodiscard]] bool compression_named(const std::filesystem::path& file);

// Whether the file holds JSON lines.
[[nodiscard]] bool is_json_lines(const std::filesystem::path& file, TextFormat format);

}  // namespace partita
