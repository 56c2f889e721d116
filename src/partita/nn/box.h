// Rectangles of a parameter: what a rank holds of a matrix that is cut by rows or by columns, and what a checkpoint
// stores of it. Pure.
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

// All of a tensor of this shape.
[[nodiscard]] Box whole_box(std::span<const int64_t> shape);

// Elements [begin, begin + count) of the box in row-major order, as at most three boxes in that order: the rest of a
// row, whole rows, the beginning of a row.
[[nodiscard]] std::vector<Box> boxes_of_run(const Box&, int64_t begin, int64_t count);

// The box in row-major order, cut into boxes of at most `most` elements: whole rows together, or parts of one row.
[[nodiscard]] std::vector<Box> cut_box(const Box&, int64_t most);

// Whether all of `inner` is in `outer`, which an empty box may be, too.
[[nodiscard]] bool contains(const Box& outer, const Box& inner);
[[nodiscard]] std::optional<Box> overlap(const Box&, const Box&);

// Where the first element of `inner` is in `outer`, in row-major order; `inner` is part of it.
[[nodiscard]] int64_t offset_in(const Box& outer, const Box& inner);

// Runs of elements that are contiguous in both boxes, from `from` to `to`, for what they share; offsets count elements
// of each box in row-major order.
struct BoxCopy {
  int64_t from = 0, to = 0, count = 0;
  friend bool operator==(const BoxCopy&, const BoxCopy&) = default;
};
[[nodiscard]] std::vector<BoxCopy> copies_between(const Box& from, const Box& to);

}  // namespace partita
