// BPE over the characters of a text, as tokenizer.json of Llama 2 has it: no pretokens, merges by rank wherever they
// apply in the whole text, bytes for characters that are no token.
//
//   const CharBpe tokenizer(model, "tokenizer.json", {.byte_fallback = true, .fuse_unk = true, .unk = 0});
//   std::vector<TokenId> ids = tokenizer.encode("▁Hello▁world");   // text as the normalizer leaves it
//
// Which merge comes next: always the lowest rank, the leftmost of equals, as in Hugging Face's tokenizers. The text is
// cut where no merge can reach across, so that its words are found in a cache; what cannot be cut takes O(n log n).
//
// Characters are told apart by the first byte's length alone: ill-formed UTF-8 is encoded as well, in some way.
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
  bool byte_fallback = false;       // a character that is no token becomes its bytes' tokens <0x00> .. <0xFF>
  bool fuse_unk = false;            // neighbouring unknown characters become one `unk`
  bool ignore_merges = false;       // a whole text that is a token becomes it, whatever merging would make
  std::optional<TokenId> unk = {};  // without it (and without byte_fallback) unknown characters are dropped
};

// Text alone, as ByteLevelBpe: EncodeOptions change nothing here.
class CharBpe final : public Tokenizer {
 public:
  // model.tokens are UTF-8 and none of model.special is made from text; model.rank is MergeRank::order.
  // Error (begins with `origin`): a merge with an id outside the vocabulary, or whose result is not its parts joined;
  // two tokens of the same text; byte_fallback with some of the 256 byte tokens missing (with none it is off, as in
  // the reference); merges that take byte tokens or `unk` apart from text;
  // fuse_unk with an `unk` of one character, which a text may spell.
  explicit CharBpe(BpeModel model, std::string_view origin = "tokenizer", CharBpeOptions options = {});

  using Tokenizer::make_encoder;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions&) const override;
  [[nodiscard]] int64_t vocab_size() const override { return model_.vocab_size(); }
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  // The token as the file writes it: "▁the", "<0x0A>". Decoders make text of it.
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;

 private:
  BpeModel model_;
  bool ignore_merges_;
  std::unordered_map<std::string_view, TokenId> ids_;  // views into model_
  UnknownChars unknown_;
  CharBpeTable table_;
};

}  // namespace partita::internal
