// Which files a tokenizer is, told from their names and first bytes alone.
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
  std::filesystem::path path;    // the file; of GPT-2's two vocab.json
  std::filesystem::path merges;  // the other of them
  std::string kind;              // of a tiktoken file, where it was said

  // Each file, and its name in a folder in which load_tokenizer() finds the same tokenizer.
  [[nodiscard]] std::vector<std::pair<std::filesystem::path, std::string>> copies() const;
};

// The whole of one of these files. Error: it does not exist (a name of a hub is not looked up), is no regular file, is
// larger than any tokenizer, or holds something else, such as a pointer of Git LFS.
[[nodiscard]] std::string read_tokenizer_file(const std::filesystem::path& path);

// `path` is what load_tokenizer() takes. Error: a folder without a tokenizer. A file that is not there is taken for a
// tokenizer.json.
[[nodiscard]] TokenizerFiles find_tokenizer_files(const std::filesystem::path& path);

// The file in a folder, if it has a tokenizer.
[[nodiscard]] std::optional<std::filesystem::path> find_tokenizer(const std::filesystem::path& folder);

}  // namespace partita::internal
