#include "partita/nn/split.h"

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// Narrows [begin, begin + size) of one dimension to the part of `rank`.
void cut(int64_t& begin, int64_t& size, int64_t quantum, int rank, int ranks) {
  const int64_t quanta = size / quantum;
  const int64_t first = quanta * rank / ranks, last = quanta * (rank + 1) / ranks;
  begin += first * quantum;
  size = (last - first) * quantum;
}

}  // namespace

std::vector<Box> local_boxes(const ParameterSpec& spec, int rank, int ranks) {
  PARTITA_CHECK(rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  const Box whole = whole_box(spec.shape);
  if (spec.split == Split::none) return {whole};
  const bool vector = spec.shape.size() < 2;  // its elements are the columns of a box
  PARTITA_CHECK(!vector || spec.split == Split::rows, "{} has no columns to split", spec.name);
  const int64_t all_rows = vector ? whole.columns : whole.rows;
  std::vector<ParameterPart> parts = spec.parts;
  if (parts.empty()) parts.push_back({.name = nullptr, .rows = all_rows});

  std::vector<Box> boxes;
  int64_t row = 0;
  for (const ParameterPart& part : parts) {
    Box box = whole;
    (vector ? box.column : box.row) = row;
    (vector ? box.columns : box.rows) = part.rows;
    row += part.rows;
    const bool by_rows = spec.split == Split::rows && !vector;
    int64_t &begin = by_rows ? box.row : box.column, &size = by_rows ? box.rows : box.columns;
    PARTITA_CHECK(size % part.quantum == 0, "{}: {} of {} in multiples of {}", spec.name,
                  part.name == nullptr ? "rows" : part.name, size, part.quantum);
    if (size / part.quantum < ranks)
      fail("{} cannot be split over {} ranks: {}{} has {} {}, of which {} stay together: use at most {} ranks",
           spec.name, ranks, part.name == nullptr ? "it" : "its part ", part.name == nullptr ? "" : part.name, size,
           spec.split == Split::rows ? "rows" : "columns", part.quantum, size / part.quantum);
    cut(begin, size, part.quantum, rank, ranks);
    boxes.push_back(box);
  }
  PARTITA_CHECK(row == all_rows, "{}: {} rows in parts, {} in all", spec.name, row, all_rows);
  return boxes;
}

}  // namespace partita::internal
