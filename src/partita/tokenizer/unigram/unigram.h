// Unigram tokenization as in tokenizer.json: finds the segmentation into tokens with the greatest sum of scores (log
// probabilities) (T. Kudo, "Subword regularization", ACL 2018). Uses the exact arithmetic of Hugging Face's tokenizers:
// sums of doubles from left to right, the first segmentation on ties, and for unknown characters the lowest score minus
// 10.
//
//   const Unigram tokenizer(std::move(model), "tokenizer.json");
//   std::vector<TokenId> ids = tokenizer.encode("▁Hello▁world");   // normalized text
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "partita/tokenizer/tokenizer.h"
#include "partita/tokenizer/unigram/unigram_lattice.h"

namespace partita::internal {

struct UnigramModel {
  std::vector<std::string> tokens;  // UTF-8
  std::vector<double> scores;       // one per token
  std::optional<TokenId> unk;       // for runs of unknown characters
  bool byte_fallback = false;       // unknown characters become bytes, provided all of <0x00> .. <0xFF> are tokens
};

// Any token may be matched in text, even special ones. Handles plain text only, like ByteLevelBpe: EncodeOptions have
// no effect.
class Unigram final : public Tokenizer {
 public:
  // Error (begins with `origin`): scores that are not finite or whose number differs from that of the tokens, `unk`
  // outside the vocabulary, an empty vocabulary. Without `unk`, encode() raises an error on unknown characters.
  explicit Unigram(UnigramModel model, std::string_view origin = "tokenizer");

  using Tokenizer::make_encoder;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions&) const override;
  [[nodiscard]] int64_t vocab_size() const override { return static_cast<int64_t>(model_.tokens.size()); }
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;

 private:
  UnigramModel model_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys are views into model_
  UnigramLattice<double> lattice_;
  std::optional<std::array<TokenId, 256>> bytes_;  // byte tokens; set with byte_fallback
};

}  // namespace partita::internal
