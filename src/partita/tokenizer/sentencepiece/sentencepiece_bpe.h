// SentencePiece's BPE: neighbours merge if they are a piece together, the piece of the highest score first, the
// leftmost of equals; user-defined pieces are found beforehand and never merge.
//
//   const SentencePieceBpe bpe(model);
//   bpe.make_segmenter()->encode(" Hello world", ids);          // compactly normalized text
//
// A piece of type UNUSED takes part in merges, and at the end falls apart into the pair that was last seen to make it
// anywhere in the text, so texts are then not cut into units.
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

  std::vector<std::string> pieces_;  // compact
  std::vector<bool> unused_;         // by id; empty: none
  ByteTrie user_defined_;
  UnknownChars unknown_;
  std::vector<size_t> symbol_bytes_;  // of each symbol's text
  CharBpeTable table_;
};

}  // namespace partita::internal
