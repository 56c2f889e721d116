// A complete tokenizer: the model and everything around it in a tokenizer file.
//
// Text passes through these stages, as in Hugging Face's tokenizers: added tokens matched in the raw text; the
// normalizer; added tokens matched in normalized text; the pre-tokenizer; the model; and surrounding tokens, if
// EncodeOptions request them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/tokenizer/added_tokens.h"
#include "partita/tokenizer/decoder.h"
#include "partita/tokenizer/normalizer.h"
#include "partita/tokenizer/split/pre_tokenizer.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct PipelineParts {
  std::unique_ptr<Tokenizer> model;  // encodes a piece of normalized text
  std::vector<AddedToken> added;
  Normalizer normalizer;
  // Splits text for the model; empty: the model splits by itself.
  std::optional<PreTokenizer> pre_tokenizer;
  bool add_prefix_space = false;       // for each text passed to the model that does not begin with a space
  bool needs_valid_utf8 = false;       // replace ill-formed parts by U+FFFD first
  std::vector<TokenId> before, after;  // EncodeOptions::add_special
  std::optional<Decoder> decoder;      // empty: the model's bytes_of() are the text
};

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(PipelineParts parts);

  using Tokenizer::make_encoder;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions& options) const override;
  [[nodiscard]] int64_t vocab_size() const override { return static_cast<int64_t>(bytes_.size()); }
  // The special token with a well-known end-of-document name, or the only special token.
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return end_of_document_; }
  [[nodiscard]] SpecialTokens special_tokens() const override;
  [[nodiscard]] std::span<const TokenId> tokens_in_front() const override { return parts_.before; }
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const override;

  [[nodiscard]] const PipelineParts& parts() const { return parts_; }
  [[nodiscard]] const AddedTokens& raw_added() const { return raw_added_; }
  [[nodiscard]] const AddedTokens& normalized_added() const { return normalized_added_; }

 private:
  PipelineParts parts_;
  AddedTokens raw_added_, normalized_added_;
  std::vector<std::string> bytes_;  // by id
  std::vector<std::string> names_;  // by id, if the decoder treats the first token of a text by its name
  std::optional<TokenId> end_of_document_;
};

}  // namespace partita::internal
