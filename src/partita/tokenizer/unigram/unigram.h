// Unigram tokenization as tokenizer.json has it: the segmentation of a text into tokens whose scores (log
// probabilities) have the greatest sum (T. Kudo, "Subword regularization", ACL 2018), with the exact arithmetic of
// Hugging Face's tokenizers: sums of doubles from left to right, the first of equals, an unknown character at the
// lowest score less 10.
//
//   const Unigram tokenizer(std::move(model), "tokenizer.json");
//   std::vector<TokenId> ids = tokenizer.encode("▁Hello▁world");   // text as the normalizer leaves it
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
  std::vector<double> scores;       // one a token
  std::optional<TokenId> unk;       // unknown characters, neighbours joined
  bool byte_fallback = false;       // if all of <0x00> .. <0xFF> are tokens, unknown characters become their bytes
};

// Every token may be found in text, also special ones. Text alone, as ByteLevelBpe: EncodeOptions change nothing here.
class Unigram final : public Tokenizer {
 public:
  // Error (begins with `origin`): scores that are not finite or not as many as tokens, `unk` outside the vocabulary,
  // a vocabulary without tokens. Text with unknown characters but no `unk` is an error of encode().
  explicit Unigram(UnigramModel model, std::string_view origin = "tokenizer");

  using Tokenizer::make_encoder;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions&) const override;
  [[nodiscard]] int64_t vocab_size() const override { return static_cast<int64_t>(model_.tokens.size()); }
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;

 private:
  UnigramModel model_;
  std::unordered_map<std::string_view, TokenId> ids_;  // views into model_
  UnigramLattice<double> lattice_;
  std::optional<std::array<TokenId, 256>> bytes_;  // with byte_fallback
};

}  // namespace partita::internal
