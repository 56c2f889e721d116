#include "partita/tokenizer/tokenizer_files.h"

#include <fstream>

#include "partita/base/error.h"
#include "partita/tokenizer/sentencepiece.h"
#include "partita/tokenizer/tiktoken.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

std::string head_of(const fs::path& path) {
  constexpr size_t kBytes = size_t{8} << 10;  // more than any line of a tiktoken file
  std::ifstream file(path, std::ios::binary);
  std::string head(kBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

// FILE:KIND, where no file has that name itself.
std::optional<std::pair<fs::path, std::string>> file_and_kind(const fs::path& path) {
  const std::string text = path.string();
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || fs::exists(path) || !fs::exists(text.substr(0, colon))) return std::nullopt;
  return std::pair(fs::path(text.substr(0, colon)), text.substr(colon + 1));
}

}  // namespace

std::vector<std::pair<fs::path, std::string>> TokenizerFiles::copies() const {
  switch (format) {
    case TokenizerFormat::json:
      return {{path, "tokenizer.json"}};
    case TokenizerFormat::sentencepiece:
      return {{path, "tokenizer.model"}};
    case TokenizerFormat::gpt2:
      return {{path, "vocab.json"}, {merges, "merges.txt"}};
    case TokenizerFormat::tiktoken:
      break;
  }
  if (!kind.empty()) return {{path, kind + ".tiktoken"}};
  return {{path, path.extension() == ".tiktoken" ? path.filename().string() : "tokenizer.model"}};
}

std::optional<fs::path> find_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"}) {
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".tiktoken") found.push_back(entry.path());
  }
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

TokenizerFiles find_tokenizer_files(const fs::path& path) {
  if (fs::is_directory(path)) {
    if (const auto found = find_tokenizer(path)) return find_tokenizer_files(*found);
    fail(
        "{}: tokenizer.json, tokenizer.model, vocab.json and merges.txt, or one file *.tiktoken, expected in this "
        "folder",
        path.string());
  }
  if (path.filename() == "vocab.json") return {TokenizerFormat::gpt2, path, path.parent_path() / "merges.txt", ""};
  if (const auto named = file_and_kind(path)) return {TokenizerFormat::tiktoken, named->first, {}, named->second};
  const std::string head = head_of(path);
  if (looks_like_tiktoken(head)) return {TokenizerFormat::tiktoken, path, {}, ""};
  return {looks_like_sentencepiece(head) ? TokenizerFormat::sentencepiece : TokenizerFormat::json, path, {}, ""};
}

}  // namespace partita
