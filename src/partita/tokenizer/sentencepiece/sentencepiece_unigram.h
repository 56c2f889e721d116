// SentencePiece's unigram model: the segmentation of the highest score (unigram_lattice.h) in floats, with a bonus for
// user-defined pieces.
//
// Units are remembered with their pieces and the sum of scores up to which these are certain (unigram_certainty.h);
// what is not certain is segmented each time.
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
