#include "partita/tokenizer/bpe/bpe.h"

#include "partita/base/error.h"
#include "partita/tokenizer/added_tokens.h"
#include "partita/tokenizer/bpe/bpe_encoder.h"

namespace partita::internal {
namespace {

std::optional<TokenId> end_of_document_of(const BpeModel& model) {
  std::vector<AddedToken> special;
  for (const TokenId id : model.special) {
    special.push_back({.content = model.tokens[static_cast<size_t>(id)], .id = id, .special = true});
  }
  return find_end_of_document(special);
}

BpeModel validated(BpeModel model, std::string_view origin) {
  validate(model, origin);
  return model;
}

std::array<TokenId, 256> byte_tokens(const std::unordered_map<std::string_view, TokenId>& ids) {
  std::array<TokenId, 256> tokens{};
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(std::string(1, static_cast<char>(byte)));
    // Bytes without a token are has_all_bytes()'s exceptions, which never occur in the text encoded here.
    tokens[byte] = found != ids.end() ? found->second : ids.at("?");
  }
  return tokens;
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(BpeModel model, std::string_view origin, ByteLevelBpeOptions options)
    : model_(validated(std::move(model), origin)),
      options_(options),
      ids_(token_ids(model_)),
      merges_(model_, byte_tokens(ids_)),
      end_of_document_(end_of_document_of(model_)) {}

std::optional<TokenId> ByteLevelBpe::find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::unique_ptr<Encoder> ByteLevelBpe::make_encoder(const EncodeOptions&) const {
  return std::make_unique<BpeEncoder>(*this);
}

std::string_view ByteLevelBpe::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) fail("token {} is outside the vocabulary 0..{}", id, vocab_size() - 1);
  return model_.tokens[static_cast<size_t>(id)];
}

}  // namespace partita::internal
