// How documents lie in input files.
//
//   json_lines  a JSON object a line; the texts are the values of `json_keys`; blank lines mean nothing
//   text        a file is one document, byte for byte; with `separator`, each line equal to it ends a document
//
// Files may be compressed by gzip or zstd; "-" is standard input.
//
//   const auto files = expand_inputs({"data/*.jsonl", "extra.txt"});
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace partita {

enum class TextFormat : uint8_t { automatic, json_lines, text };
enum class InvalidUtf8 : uint8_t { error, replace, keep };  // refuse the document; U+FFFD; the bytes as they are

struct TextInputOptions {
  // automatic: .jsonl, .json and .ndjson, also before .gz and .zst, are JSON lines; so is standard input.
  TextFormat format = TextFormat::automatic;
  std::vector<std::string> json_keys = {"text"};
  std::optional<std::string> separator;  // a line of text files; "" is an empty line
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;
  // A longer document is not read: what is compressed or comes from a pipe may be any length, and memory is not.
  int64_t max_line_bytes = int64_t{128} << 20;  // of a JSON line
  // Of a text. Nothing: kStreamedDocumentBytes where it is held in memory; a plain file is mapped, and has no limit.
  std::optional<int64_t> max_document_bytes;
  static constexpr int64_t kStreamedDocumentBytes = int64_t{1} << 30;
  // The limit for a document. mapped: of a plain regular file.
  [[nodiscard]] int64_t max_bytes(bool json, bool mapped) const {
    if (json) return max_line_bytes;
    return max_document_bytes.value_or(mapped ? std::numeric_limits<int64_t>::max() : kStreamedDocumentBytes);
  }
  std::string key_remedy = "name it with --json-keys";  // what to do where a key is missing, for messages
};

// Files that match the patterns (glob(7)), each pattern's in order of name; "-" stays as it is. Error: a pattern
// without a match, a folder. A file that is given twice, by whatever name, is read once, with a warning.
[[nodiscard]] std::vector<std::filesystem::path> expand_inputs(const std::vector<std::string>& patterns);

// Whether the name says that it is compressed.
[[nodiscard]] bool compression_named(const std::filesystem::path& file);

// Whether the file holds JSON lines.
[[nodiscard]] bool is_json_lines(const std::filesystem::path& file, TextFormat format);

}  // namespace partita
