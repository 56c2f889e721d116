// Byte-level BPE as in GPT-2: splits text into pretokens (splitter.h), then applies ranked merges of adjacent tokens
// within each. Loaders are in tokenizer_json.h, gpt2_files.h and tiktoken.h.
//
//   const ByteLevelBpe tokenizer(load_gpt2_files("vocab.json", "merges.txt"));
//   std::vector<TokenId> ids = tokenizer.encode("Hello world");
//
// Merge order: always the pair with the lowest rank in the pretoken, the leftmost on ties, as in Hugging Face's
// tokenizers. O(n log n) for a pretoken of n bytes.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"
#include "partita/tokenizer/bpe/merge_table.h"
#include "partita/tokenizer/split/splitter.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct ByteLevelBpeOptions {
  SplitPattern pattern = SplitPattern::gpt2;
  bool ignore_merges = false;  // a pretoken that is a token becomes that token, without merging
};

// Handles plain text only. The rest of a tokenizer file (normalizer, added tokens, surrounding tokens) is handled by
// pipeline.h, which passes the text in between to this class. EncodeOptions therefore have no effect.
class ByteLevelBpe final : public Tokenizer {
 public:
  // Error: validate(model, origin).
  explicit ByteLevelBpe(BpeModel model, std::string_view origin = "tokenizer", ByteLevelBpeOptions options = {});

  using Tokenizer::make_encoder;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions&) const override;
  [[nodiscard]] int64_t vocab_size() const override { return model_.vocab_size(); }
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return end_of_document_; }
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;

  [[nodiscard]] const BpeModel& model() const { return model_; }
  [[nodiscard]] const ByteLevelBpeOptions& options() const { return options_; }
  // The token with exactly these bytes that ordinary text can produce, if any.
  [[nodiscard]] std::optional<TokenId> find(std::string_view bytes) const;
  [[nodiscard]] const MergeTable& merges() const { return merges_; }

 private:
  BpeModel model_;
  ByteLevelBpeOptions options_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys are views into model_
  MergeTable merges_;
  std::optional<TokenId> end_of_document_;
};

}  // namespace partita::internal
