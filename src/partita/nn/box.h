// Rectangles of a parameter: the part that a rank holds of a matrix sharded by rows or columns, and that a checkpoint
// stores. Pure.
//
//   const Box box{.row = 0, .rows = 4, .column = 6, .columns = 3};        // columns 6 to 8 of a matrix [4, 9]
//   boxes_of_run(box, 2, 8);                                       // its elements 2 to 9, row by row: three boxes
//
// A matrix [rows, columns, ...] counts all dimensions after the first as columns. A vector is one row.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace partita {

struct Box {
  int64_t row = 0, rows = 0, column = 0, columns = 0;

  [[nodiscard]] int64_t count() const { return rows * columns; }  // elements
  friend bool operator==(const Box&, const Box&) = default;
};

// The whole tensor of this shape.
[[nodiscard]] Box whole_box(std::span<const int64_t> shape);

// Elements [begin, begin + count) of the box in row-major order, as at most three consecutive boxes: the rest of a row,
// whole rows, the start of a row.
[[nodiscard]] std::vector<Box> boxes_of_run(const Box&, int64_t begin, int64_t count);

// Splits the box, in row-major order, into boxes of at most `most` elements: groups of whole rows, or parts of one row.
[[nodiscard]] std::vector<Box> cut_box(const Box&, int64_t most);

// Whether `outer` contains all of `inner`; true if `inner` is empty.
[[nodiscard]] bool contains(const Box& outer, const Box& inner);
[[nodiscard]] std::optional<Box> overlap(const Box&, const Box&);

// Row-major offset in `outer` of the first element of `inner`, which `outer` must contain.
[[nodiscard]] int64_t offset_in(const Box& outer, const Box& inner);

// Copies from `from` to `to` that cover their overlap, in runs that are contiguous in both boxes. Offsets are row-major
// element offsets within each box.
struct BoxCopy {
  int64_t from = 0, to = 0, count = 0;
  friend bool operator==(const BoxCopy&, const BoxCopy&) = default;
};
[[nodiscard]] std::vector<BoxCopy> copies_between(const Box& from, const Box& to);

}  // namespace partita
