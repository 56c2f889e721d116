#include "partita/tokenizer/formats/tokenizer_files.h"

#include <fstream>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/foreign_format.h"
#include "partita/base/hub_name.h"
#include "partita/tokenizer/formats/tiktoken.h"
#include "partita/tokenizer/sentencepiece/sentencepiece.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

std::string head_of(const fs::path& path) {
  if (!fs::is_regular_file(path)) return "";  // opening a pipe would block
  constexpr size_t kBytes = size_t{8} << 10;  // longer than any line of a tiktoken file
  std::ifstream file(path, std::ios::binary);
  std::string head(kBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

// Parses FILE:KIND, unless a file has that name itself.
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

std::string read_tokenizer_file(const fs::path& path) {
  constexpr uintmax_t kMostBytes = uintmax_t{512} << 20;  // the largest known files have 40 MB
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) fail("cannot read {}: {}", path.string(), error.message());
  if (!fs::exists(status))
    fail("{} does not exist: expected the file or folder of a tokenizer{}", path.string(), hub_hint(path));
  if (fs::is_directory(status)) fail("{} is a folder, a file expected", path.string());
  if (!fs::is_regular_file(status)) fail("{} is not a regular file: a tokenizer's file expected", path.string());
  if (const uintmax_t bytes = fs::file_size(path, error); !error && bytes > kMostBytes)
    fail("{} has {} bytes: no tokenizer has more than {}", path.string(), bytes, kMostBytes);
  std::string content = read_file(path);
  if (const auto found = foreign_format(std::string_view(content).substr(0, kForeignFormatBytes)))
    fail("{}", describe(*found, path.string(), "a tokenizer"));
  return content;
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

}  // namespace partita::internal
