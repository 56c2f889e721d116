// SentencePiece's BPE: adjacent pieces merge if their concatenation is a piece, highest score first, leftmost on ties.
// User-defined pieces are matched first and never merge.
//
//   const SentencePieceBpe bpe(model);
//   bpe.make_segmenter()->encode(" Hello world", ids);          // compactly normalized text
//
// Pieces of type UNUSED take part in merging; the result is then split into the pair that last produced it anywhere in
// the text. Texts of such models are therefore not split into units.
#pragma once
#include <vector>

#include "partita/tokenizer/bpe/char_bpe_table.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_pieces.h"
#include "partita/tokenizer/unigram/byte_trie.h"

namespace partita::internal {

class SentencePieceBpe final : public SentencePieceAlgorithm {
 public:
  explicit SentencePieceBpe(const SentencePieceModel& model);
  [[nodiscard]] std::unique_ptr<SentencePieceSegmenter> make_segmenter() const override;

 private:
  friend class SentencePieceBpeSegmenter;
  friend class SentencePieceUnusedSegmenter;

  std::vector<std::string> pieces_;  // in compact form
  std::vector<bool> unused_;         // by id; empty: the model has none
  ByteTrie user_defined_;
  UnknownChars unknown_;
  std::vector<size_t> symbol_bytes_;  // bytes of each symbol's text
  CharBpeTable table_;
};

}  // namespace partita::internal
