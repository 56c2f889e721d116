// BPE over the characters of a text, as in Llama 2's tokenizer.json: no pretokens, merges by rank anywhere in the text,
// and byte tokens for characters that are not tokens.
//
//   const CharBpe tokenizer(model, "tokenizer.json", {.byte_fallback = true, .fuse_unk = true, .unk = 0});
//   std::vector<TokenId> ids = tokenizer.encode("▁Hello▁world");   // normalized text
//
// Merge order: always the lowest rank, the leftmost on ties, as in Hugging Face's tokenizers. The text is split where
// no merge can cross, so that its words can be cached; unsplittable text takes O(n log n).
//
// Character lengths come from the lead byte alone; ill-formed UTF-8 is encoded too, in an unspecified way.
#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "partita/tokenizer/bpe/bpe_model.h"
#include "partita/tokenizer/bpe/char_bpe_encoder.h"
#include "partita/tokenizer/bpe/char_bpe_table.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct CharBpeOptions {
  bool byte_fallback = false;       // characters that are not tokens become byte tokens <0x00> .. <0xFF>
  bool fuse_unk = false;            // adjacent unknown characters become a single `unk`
  bool ignore_merges = false;       // a text that is a token as a whole becomes that token, without merging
  std::optional<TokenId> unk = {};  // if empty (and without byte_fallback), unknown characters are dropped
};

// Handles plain text only, like ByteLevelBpe: EncodeOptions have no effect.
class CharBpe final : public Tokenizer {
 public:
  // model.tokens must be UTF-8, text must not produce model.special, and model.rank must be MergeRank::order. Error
  // (begins with `origin`): a merge with an id outside the vocabulary, or whose result is not the concatenation of its
  // parts; two tokens with the same text; byte_fallback with only some of the 256 byte tokens (with none of them it is
  // off, as in the reference); merges that involve byte tokens or `unk`; fuse_unk with an `unk`
  // of a single character, which text could spell.
  explicit CharBpe(BpeModel model, std::string_view origin = "tokenizer", CharBpeOptions options = {});

  using Tokenizer::make_encoder;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions&) const override;
  [[nodiscard]] int64_t vocab_size() const override { return model_.vocab_size(); }
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  // The token as written in the file: "▁the", "<0x0A>". Decoders convert it to text.
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;

  [[nodiscard]] const BpeModel& model() const { return model_; }
  [[nodiscard]] bool ignores_merges() const { return ignore_merges_; }
  // Whether characters that are not tokens become byte tokens.
  [[nodiscard]] bool falls_back_to_bytes() const { return unknown_.as == UnknownChars::As::bytes; }

 private:
  BpeModel model_;
  bool ignore_merges_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys are views into model_
  UnknownChars unknown_;
  CharBpeTable table_;
};

}  // namespace partita::internal
