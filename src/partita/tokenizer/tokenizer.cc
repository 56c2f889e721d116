#include "partita/tokenizer/tokenizer.h"

#include "partita/base/error.h"
#include "partita/tokenizer/bpe.h"
#include "partita/tokenizer/gpt2_files.h"
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

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  if (fs::is_directory(path)) {
    for (const char* name : {"tokenizer.json", "vocab.json"}) {
      if (fs::exists(path / name)) return load_tokenizer(path / name);
    }
    fail("{}: tokenizer.json, or vocab.json and merges.txt, expected in this folder", path.string());
  }
  if (path.filename() == "vocab.json") {
    return std::make_unique<ByteLevelBpe>(load_gpt2_files(path, path.parent_path() / "merges.txt"), path.string());
  }
  return std::make_unique<ByteLevelBpe>(load_tokenizer_json(path), path.string());
}

}  // namespace partita
