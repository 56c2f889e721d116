#include "partita/tokenizer/tokenizer.h"

#include <fstream>

#include "partita/base/error.h"
#include "partita/tokenizer/bpe.h"
#include "partita/tokenizer/gpt2_files.h"
#include "partita/tokenizer/pipeline.h"
#include "partita/tokenizer/sentencepiece.h"
#include "partita/tokenizer/tiktoken.h"
#include "partita/tokenizer/tokenizer_json.h"

namespace partita {
namespace fs = std::filesystem;

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  make_encoder(options)->encode(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (TokenId id : ids) text += bytes_of(id);
  return text;
}

namespace {

std::unique_ptr<Tokenizer> load_folder(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"}) {
    if (fs::exists(folder / name)) return load_tokenizer(folder / name);
  }
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tiktoken") found.push_back(entry.path());
  }
  if (found.size() == 1) return load_tokenizer(found[0]);
  fail(
      "{}: tokenizer.json, tokenizer.model, vocab.json and merges.txt, or one file *.tiktoken, expected in this folder",
      folder.string());
}

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

std::unique_ptr<Tokenizer> load_gpt2(const fs::path& vocab, const fs::path& merges) {
  BpeModel model = load_gpt2_files(vocab, merges);
  PipelineParts parts;
  for (const TokenId id : model.special) {
    parts.added.push_back({.content = model.tokens[static_cast<size_t>(id)], .id = id, .special = true});
  }
  parts.model = std::make_unique<ByteLevelBpe>(std::move(model), vocab.string());
  return std::make_unique<Pipeline>(std::move(parts));
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  if (fs::is_directory(path)) return load_folder(path);
  if (path.filename() == "vocab.json") return load_gpt2(path, path.parent_path() / "merges.txt");
  if (const auto named = file_and_kind(path)) return load_tiktoken(named->first, named->second);
  const std::string head = head_of(path);
  if (looks_like_tiktoken(head)) return load_tiktoken(path);
  if (looks_like_sentencepiece(head)) return load_sentencepiece(path);
  return read_tokenizer_json(path);
}

}  // namespace partita
