// Detects the format of tokenizer files from their names and first bytes.
//
//   const TokenizerFiles files = find_tokenizer_files("cl100k_base.tiktoken");
//   for (const auto& [from, name] : files.copies()) write_file(folder / name, read_file(from));
//   load_tokenizer(folder);      // the same tokenizer
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace partita::internal {

enum class TokenizerFormat {
  json,           // tokenizer_json.h
  sentencepiece,  // sentencepiece.h
  tiktoken,       // tiktoken.h
  gpt2,           // gpt2_files.h
};

struct TokenizerFiles {
  TokenizerFormat format;
  std::filesystem::path path;    // the file; for GPT-2's pair, vocab.json
  std::filesystem::path merges;  // GPT-2's merges.txt
  std::string kind;              // of a tiktoken file, if given

  // Each file, with its name in a folder from which load_tokenizer() loads the same tokenizer.
  [[nodiscard]] std::vector<std::pair<std::filesystem::path, std::string>> copies() const;
};

// Reads one of these files. Error: it does not exist (hub names are not resolved), is not a regular file, is larger
// than any tokenizer, or is something else, such as a Git LFS pointer.
[[nodiscard]] std::string read_tokenizer_file(const std::filesystem::path& path);

// `path`: as for load_tokenizer(). Error: a folder without a tokenizer. A missing file is assumed to be a
// tokenizer.json.
[[nodiscard]] TokenizerFiles find_tokenizer_files(const std::filesystem::path& path);

// The tokenizer file in a folder, if any.
[[nodiscard]] std::optional<std::filesystem::path> find_tokenizer(const std::filesystem::path& folder);

}  // namespace partita::internal
