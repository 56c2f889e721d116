// SentencePiece's unigram model: the segmentation with the highest score (unigram_lattice.h), in float arithmetic, with
// a bonus for user-defined pieces.
//
// Units are cached with their pieces and the magnitude of the running sum up to which the pieces are certain
// (unigram_certainty.h); beyond it, units are segmented each time.
#pragma once
#include <vector>

#include "partita/tokenizer/sentencepiece/sentencepiece_pieces.h"
#include "partita/tokenizer/unigram/unigram_lattice.h"

namespace partita::internal {

class SentencePieceUnigram final : public SentencePieceAlgorithm {
 public:
  explicit SentencePieceUnigram(const SentencePieceModel& model);
  [[nodiscard]] std::unique_ptr<SentencePieceSegmenter> make_segmenter() const override;

 private:
  friend class SentencePieceUnigramSegmenter;

  UnknownChars unknown_;
  UnigramLattice<float> lattice_;
  std::vector<float> scores_;  // by id, as the lattice adds them
};

}  // namespace partita::internal
