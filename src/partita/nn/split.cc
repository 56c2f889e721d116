#include "partita/nn/split.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A range of one dimension, and the ranks that hold it.
struct Cut {
  int64_t begin, size;
  int first_holder, holders;
};

// The range of `rank` where each of `ranks` holds at least one quantum, or shares one. holders 0: impossible.
Cut cut(int64_t size, const ParameterPart& part, int rank, int ranks) {
  const int64_t quanta = divide_up(size, part.quantum);
  if (quanta >= ranks) {
    const int64_t begin = quanta * rank / ranks * part.quantum;
    const int64_t end = std::min(size, quanta * (rank + 1) / ranks * part.quantum);
    return {begin, end - begin, rank, 1};
  }
  const int64_t shared = quanta * rank / ranks;  // the quantum of this rank and its neighbors
  const auto first = static_cast<int>(divide_up(shared * ranks, quanta));
  const int sharers = static_cast<int>(divide_up((shared + 1) * ranks, quanta)) - first;
  if (part.replicated) return {shared * part.quantum, part.quantum, first, sharers};
  const int64_t units = part.inner > 0 ? part.quantum / part.inner : 1;
  if (units < sharers) return {0, 0, rank, 0};
  const int64_t begin = units * (rank - first) / sharers, end = units * (rank - first + 1) / sharers;
  return {shared * part.quantum + begin * part.inner, (end - begin) * part.inner, rank, 1};
}

// The largest number of ranks that the part can be split over.
int most_ranks(int64_t size, const ParameterPart& part) {
  const auto possible = [&](int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      if (cut(size, part, rank, ranks).holders == 0) return false;
    return true;
  };
  int most = 1;
  while (possible(most + 1)) ++most;
  return most;
}

}  // namespace

std::vector<LocalBox> local_boxes(const ParameterSpec& spec, int rank, int ranks) {
  PARTITA_CHECK(rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  const Box whole = whole_box(spec.shape);
  if (spec.split == Split::none) return {{.box = whole, .holders = ranks, .primary = rank == 0}};
  const bool vector = spec.shape.size() < 2;  // its elements are the columns of a box
  PARTITA_CHECK(!vector || spec.split == Split::rows, "{} has no columns to split", spec.name);
  const int64_t all_rows = vector ? whole.columns : whole.rows;
  std::vector<ParameterPart> parts = spec.parts;
  if (parts.empty()) parts.push_back({.name = nullptr, .rows = all_rows});

  std::vector<LocalBox> boxes;
  int64_t row = 0;
  for (const ParameterPart& part : parts) {
    Box box = whole;
    (vector ? box.column : box.row) = row;
    (vector ? box.columns : box.rows) = part.rows;
    row += part.rows;
    const bool by_rows = spec.split == Split::rows && !vector;
    int64_t &begin = by_rows ? box.row : box.column, &size = by_rows ? box.rows : box.columns;
    const Cut own = cut(size, part, rank, ranks);
    if (own.holders == 0)
      fail("{} cannot be split over {} ranks: {}{} has {} {}, of which {} stay together: use at most {} ranks",
           spec.name, ranks, part.name == nullptr ? "it" : "its part ", part.name == nullptr ? "" : part.name, size,
           spec.split == Split::rows ? "rows" : "columns", part.inner > 0 ? part.inner : part.quantum,
           most_ranks(size, part));
    begin += own.begin;
    size = own.size;
    boxes.push_back(
        {.box = box, .first_holder = own.first_holder, .holders = own.holders, .primary = rank == own.first_holder});
  }
  PARTITA_CHECK(row == all_rows, "{}: {} rows in parts, {} in all", spec.name, row, all_rows);
  return boxes;
}

void set_local_boxes(std::vector<ParameterSpec>& specs, const TensorSplit& split) {
  if (split.ranks == 1) return;
  for (ParameterSpec& spec : specs) spec.local = local_boxes(spec, split.rank, split.ranks);
}

}  // namespace partita::internal
