// Which rank holds which stages of a pipeline. Pure.
//
//   const StagePlacement placement(shape);      // 4 ranks, 2 chunks   loop: rank 1 holds stages 1 and 5
//   placement.stage(1, 1);                      //                     V:    rank 1 holds stages 1 and 6
//   placement.handed_over(3);                   // whether stage 3's output is a message: not at the turn of a V
//
// The embedding is the first block of stage 0, the head the last one of the last stage.
#pragma once
#include "partita/pipeline/shape.h"

namespace partita::internal {

class StagePlacement {
 public:
  enum class Kind : uint8_t {
    loop,  // chunk k of rank r is stage k P + r
    v,     // odd chunks run back: stage k P + P - 1 - r
  };

  StagePlacement(Kind kind, int ranks, int chunks) : kind_(kind), ranks_(ranks), chunks_(chunks) {}
  // The one that the schedule is made for. Errors: those of check_shape.
  explicit StagePlacement(const PipelineShape&);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int chunks() const { return chunks_; }
  [[nodiscard]] int stages() const { return ranks_ * chunks_; }

  [[nodiscard]] int stage(int rank, int chunk) const { return chunk * ranks_ + place(rank, chunk); }
  // The inverse.
  [[nodiscard]] int chunk(int stage) const { return stage / ranks_; }
  [[nodiscard]] int rank(int stage) const { return place(stage % ranks_, chunk(stage)); }

  [[nodiscard]] int embedding_rank() const { return rank(0); }
  [[nodiscard]] int head_rank() const { return rank(stages() - 1); }

  // Whether the output of the stage, and the gradient that comes back for it, travel between two ranks. False for the
  // last stage.
  [[nodiscard]] bool handed_over(int stage) const { return stage + 1 < stages() && rank(stage) != rank(stage + 1); }
  // Whether the last rank and the first one pass messages to each other, though they are no neighbors.
  [[nodiscard]] bool closes_ring() const { return ranks_ > 2 && handed_over(ranks_ - 1); }

 private:
  // Its own inverse: the place of a rank in a chunk, and the rank at a place.
  [[nodiscard]] int place(int i, int chunk) const { return kind_ == Kind::v && chunk % 2 == 1 ? ranks_ - 1 - i : i; }

  Kind kind_;
  int ranks_, chunks_;
};

}  // namespace partita::internal
