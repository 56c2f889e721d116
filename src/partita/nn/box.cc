#include "partita/nn/box.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {
using namespace internal;

Box whole_box(std::span<const int64_t> shape) {
  if (shape.size() < 2) return {.rows = 1, .columns = shape.empty() ? 1 : shape[0]};
  Box box{.rows = shape[0], .columns = 1};
  for (const int64_t extent : shape.subspan(1)) box.columns *= extent;
  return box;
}

std::vector<Box> boxes_of_run(const Box& box, int64_t begin, int64_t count) {
  PARTITA_CHECK(begin >= 0 && count >= 0 && count <= box.count() - begin, "elements {} to {} of a box of {}", begin,
                begin + count, box.count());
  std::vector<Box> boxes;
  while (count > 0) {
    const int64_t row = begin / box.columns, column = begin % box.columns;
    Box next{.row = box.row + row, .rows = 1, .column = box.column + column, .columns = box.columns - column};
    if (column == 0 && count >= box.columns)
      next.rows = count / box.columns;
    else
      next.columns = std::min(next.columns, count);
    begin += next.count();
    count -= next.count();
    boxes.push_back(next);
  }
  return boxes;
}

std::vector<Box> cut_box(const Box& box, int64_t most) {
  PARTITA_CHECK(most > 0, "boxes of at most {} elements", most);
  std::vector<Box> parts;
  if (box.count() == 0) return parts;
  const int64_t rows = std::max<int64_t>(1, most / box.columns), columns = std::min(most, box.columns);
  for (int64_t row = 0; row < box.rows; row += rows)
    for (int64_t column = 0; column < box.columns; column += columns)
      parts.push_back({.row = box.row + row,
                       .rows = std::min(rows, box.rows - row),
                       .column = box.column + column,
                       .columns = std::min(columns, box.columns - column)});
  return parts;
}

bool contains(const Box& outer, const Box& inner) {
  const auto in = [](int64_t begin, int64_t count, int64_t outer_begin, int64_t outer_count) {
    return begin >= outer_begin && count >= 0 && count <= outer_count - (begin - outer_begin);
  };
  return in(inner.row, inner.rows, outer.row, outer.rows) &&
         in(inner.column, inner.columns, outer.column, outer.columns);
}

std::optional<Box> overlap(const Box& a, const Box& b) {
  const int64_t row = std::max(a.row, b.row), row_end = std::min(a.row + a.rows, b.row + b.rows);
  const int64_t column = std::max(a.column, b.column),
                column_end = std::min(a.column + a.columns, b.column + b.columns);
  if (row >= row_end || column >= column_end) return std::nullopt;
  return Box{.row = row, .rows = row_end - row, .column = column, .columns = column_end - column};
}

int64_t offset_in(const Box& outer, const Box& inner) {
  return (inner.row - outer.row) * outer.columns + inner.column - outer.column;
}

std::vector<BoxCopy> copies_between(const Box& from, const Box& to) {
  const std::optional<Box> shared = overlap(from, to);
  if (!shared) return {};
  // Rows as wide as both boxes are contiguous in both.
  if (shared->columns == from.columns && shared->columns == to.columns)
    return {{offset_in(from, *shared), offset_in(to, *shared), shared->count()}};
  std::vector<BoxCopy> copies;
  Box line = *shared;
  line.rows = 1;
  for (; line.row < shared->row + shared->rows; ++line.row)
    copies.push_back({offset_in(from, line), offset_in(to, line), line.columns});
  return copies;
}

}  // namespace partita
