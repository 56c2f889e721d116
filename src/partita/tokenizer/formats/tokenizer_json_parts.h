// Readers for the parts of a tokenizer.json other than the model: normalizer, pre_tokenizer, post_processor, decoder,
// added_tokens. Errors name the unsupported field.
#pragma once
#include <optional>
#include <vector>

#include "partita/tokenizer/added_tokens.h"
#include "partita/tokenizer/decoder.h"
#include "partita/tokenizer/formats/json_node.h"
#include "partita/tokenizer/normalizer.h"
#include "partita/tokenizer/split/pre_tokenizer.h"

namespace partita::internal {

// `root` is the whole file.
[[nodiscard]] Normalizer read_normalizer(const JsonNode& root);
[[nodiscard]] PreTokenizer read_pre_tokenizer(const JsonNode& root);
// Empty if the file has no decoder, or ByteLevel.
[[nodiscard]] std::optional<Decoder> read_decoder(const JsonNode& root);
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const JsonNode& root);

struct SurroundingTokens {
  std::vector<TokenId> before, after;
};
[[nodiscard]] SurroundingTokens read_post_processor(const JsonNode& root);

}  // namespace partita::internal
