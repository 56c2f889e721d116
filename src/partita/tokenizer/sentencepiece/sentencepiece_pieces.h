// Shared by SentencePiece's two algorithms: the model's pieces in the form of compactly normalized text
// (sentencepiece_normalizer.h), and the segmenter interface.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "partita/tokenizer/bpe/char_bpe_encoder.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_model.h"
#include "partita/tokenizer/unigram/byte_trie.h"

namespace partita::internal {

// Replaces each U+2581 by ' '.
[[nodiscard]] std::string spaces_for_blocks(std::string_view text);

// The text of each piece, with ' ' for U+2581 if the model escapes spaces; empty for pieces that text never becomes.
[[nodiscard]] std::vector<std::string> compact_pieces(const SentencePieceModel& model);

// Byte tokens, or one unknown piece per run of unknown characters.
[[nodiscard]] UnknownChars sentencepiece_unknown(const SentencePieceModel& model);

// Encodes normalized texts. Not thread-safe.
class SentencePieceSegmenter {
 public:
  virtual ~SentencePieceSegmenter() = default;
  virtual void encode(std::string_view normalized, std::vector<TokenId>& ids) = 0;
};

class SentencePieceAlgorithm {
 public:
  virtual ~SentencePieceAlgorithm() = default;
  // The segmenter keeps a reference to this.
  [[nodiscard]] virtual std::unique_ptr<SentencePieceSegmenter> make_segmenter() const = 0;
};

}  // namespace partita::internal
