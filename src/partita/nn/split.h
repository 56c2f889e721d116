// The part of a parameter that each rank of a tensor-parallel group holds. Pure.
//
//   local_boxes(spec, 1, 2);     // of qkv [3 * 768, 768], 12 heads: heads 6 to 11 of q, of k and of v, all columns
//
// Each part is split separately and as evenly as possible into multiples of its quantum, of which the last may be
// smaller. Parts with the same number of quanta are split at the same points, so that the output of one linear is on
// the rank that reads it: an attention output projection reads the heads computed from its own rank's q, k and v.
// Where there are fewer key/value heads than ranks, neighboring ranks hold the same one, and share the query heads that
// read it.
#pragma once
#include <vector>

#include "partita/nn/box.h"
#include "partita/nn/parameter.h"

namespace partita {

struct RowRun {
  int64_t begin, count;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};

// This rank's place in its tensor-parallel group.
struct TensorSplit {
  int rank = 0, ranks = 1;
  // Sequence parallelism (V. Korthikanti et al., "Reducing activation recomputation in large transformer models",
  // 2022): between the linears each rank computes an equal part of the rows, if the ranks divide them.
  bool sequence = false;
  // The matmuls of a linear are made in pieces of at least this many rows, so that their operands and results travel
  // meanwhile. Shorter matmuls lose more than that gains (GPUs: below about 512 rows).
  int64_t least_piece = 1024;

  // Rows of the residual stream on this rank, for a micro-batch of this many rows, and the first of them.
  [[nodiscard]] int64_t stream_rows(int64_t rows) const { return splits_rows(rows) ? rows / ranks : rows; }
  [[nodiscard]] int64_t first_row(int64_t rows) const { return splits_rows(rows) ? rows / ranks * rank : 0; }
  [[nodiscard]] bool splits_rows(int64_t rows) const { return sequence && ranks > 1 && rows % ranks == 0; }

  // The equal part of the rows of a rank, which may be empty if there are fewer rows than ranks: those whose terms it
  // adds to the gradients of parameters that every rank has.
  [[nodiscard]] RowRun part_of(int64_t rows, int of) const {
    const int64_t begin = rows * of / ranks;
    return {begin, rows * (of + 1) / ranks - begin};
  }
  [[nodiscard]] RowRun part(int64_t rows) const { return part_of(rows, rank); }
  // This rank's rows of the residual stream, in the runs that every rank computes alike: results have the same bits
  // with and without sequence parallelism.
  [[nodiscard]] std::vector<RowRun> stream_parts(int64_t rows) const {
    if (splits_rows(rows)) return {part(rows)};
    if (ranks == 1 || rows % ranks != 0) return {{0, rows}};
    std::vector<RowRun> parts;
    for (int of = 0; of < ranks; ++of) parts.push_back(part_of(rows, of));
    return parts;
  }

  // This rank's part of the rows, and those before and after it; all are its own if parts would be too short, or not a
  // multiple of `quantum` rows. The same with and without sequence parallelism, so that matmuls have the same bits.
  struct Pieces {
    RowRun own;
    std::vector<RowRun> others;
  };
  [[nodiscard]] Pieces pieces(int64_t rows, int64_t quantum = 1) const {
    const int64_t part = rows / ranks, begin = part * rank, end = begin + part;
    if (ranks == 1 || rows % ranks != 0 || part < least_piece || part % quantum != 0)
      return {.own = {0, rows}, .others = {}};
    Pieces pieces{.own = {begin, part}, .others = {}};
    if (begin > 0) pieces.others.push_back({0, begin});
    if (end < rows) pieces.others.push_back({end, rows - end});
    return pieces;
  }
};

}  // namespace partita

namespace partita::internal {

// One box per part, in order; stacked, they form the matrix that the rank multiplies with. The whole parameter, shared
// by all ranks, if it is not split. Error: more ranks than the part can be divided among.
[[nodiscard]] std::vector<LocalBox> local_boxes(const ParameterSpec&, int rank, int ranks);

// Sets `local` of each parameter; nothing for one rank.
void set_local_boxes(std::vector<ParameterSpec>&, const TensorSplit&);

}  // namespace partita::internal
