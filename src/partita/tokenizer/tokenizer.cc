#include "partita/tokenizer/tokenizer.h"

#include "partita/base/error.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "partita/tokenizer/formats/gpt2_files.h"
#include "partita/tokenizer/formats/tiktoken.h"
#include "partita/tokenizer/formats/tokenizer_config.h"
#include "partita/tokenizer/formats/tokenizer_files.h"
#include "partita/tokenizer/formats/tokenizer_json.h"
#include "partita/tokenizer/pipeline.h"
#include "partita/tokenizer/sentencepiece/sentencepiece.h"

namespace partita {
using namespace internal;
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

std::unique_ptr<Tokenizer> load_gpt2(const fs::path& vocab, const fs::path& merges) {
  BpeModel model = load_gpt2_files(vocab, merges);
  PipelineParts parts;
  for (const TokenId id : model.special) {
    parts.added.push_back({.content = model.tokens[static_cast<size_t>(id)], .id = id, .special = true});
  }
  parts.model = std::make_unique<ByteLevelBpe>(std::move(model), vocab.string());
  return std::make_unique<Pipeline>(std::move(parts));
}

namespace {

std::unique_ptr<Tokenizer> load(const TokenizerFiles& files, const TokenizerConfig& config) {
  switch (files.format) {
    case TokenizerFormat::gpt2:
      return load_gpt2(files.path, files.merges);
    case TokenizerFormat::tiktoken:
      return load_tiktoken(files.path, files.kind);
    case TokenizerFormat::sentencepiece:
      return load_sentencepiece(files.path, config.add_bos_token.value_or(true));
    case TokenizerFormat::json:
      break;
  }
  return read_tokenizer_json(files.path);
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  const TokenizerFiles files = find_tokenizer_files(path);
  const TokenizerConfig config = read_tokenizer_config(files.path.parent_path());
  std::unique_ptr<Tokenizer> tokenizer = load(files, config);
  check_tokenizer_config(config, *tokenizer, files.format);
  return tokenizer;
}

}  // namespace partita
