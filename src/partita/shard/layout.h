// Layout of a unit's parameters in one flat buffer, and the part of it that each rank holds. Pure arithmetic.
//
// A *unit* is gathered and reduced as one. One layout serves its weights, gradients, master weights and optimizer
// states, whatever their dtype: offsets count elements. Shards are equal slices of the buffer; a parameter may span a
// slice boundary.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/nn/parameter.h"

namespace partita::internal {

// Parameters and slices begin at multiples of this many elements (256 bytes in bf16).
inline constexpr int64_t kAlignment = 128;

struct Layout {
  // What this rank's tensor-parallel group leaves to it (ParameterSpec::local). Those with weight decay first, of these
  // those that the whole group holds, to keep runs few.
  std::vector<ParameterSpec> parameters;
  std::vector<int64_t> begin;  // [parameter]: a multiple of kAlignment
  int64_t count = 0;           // elements, a multiple of ranks * kAlignment; padding is always zero
  int ranks = 1;

  [[nodiscard]] int64_t slice_count() const { return count / ranks; }
};

[[nodiscard]] Layout make_layout(std::vector<ParameterSpec> parameters, int ranks);

// A run of one box of a parameter within a slice. in_slice is relative to the start of the slice.
struct Segment {
  int parameter;  // index in Layout::parameters
  int64_t in_box, in_slice, count;
  Box box;              // of the global parameter
  bool primary = true;  // LocalBox::primary

  // A number of the first element that no other of the parameter has, on any rank: its index, if the box has whole
  // rows; else counted box after box, so that it depends on the number of tensor-parallel ranks.
  [[nodiscard]] int64_t first_number(const ParameterSpec& p) const {
    const Box whole = whole_box(p.shape);
    return (box.columns == whole.columns || whole.rows == 1 ? offset_in(whole, box) : box.column * whole.rows) + in_box;
  }
};

// Segments of the slice of `rank`, in order; padding belongs to none.
[[nodiscard]] std::vector<Segment> slice_segments(const Layout&, int rank);

// Elements [begin, begin + count) of a buffer.
struct FlatRun {
  int64_t begin, count;
  friend bool operator==(const FlatRun&, const FlatRun&) = default;
};

// Runs of the slice of `rank` whose elements this rank counts, so that over all ranks of the tensor-parallel group each
// element of the model is counted once. Includes padding where that makes runs fewer.
[[nodiscard]] std::vector<FlatRun> counted_runs(const Layout&, int rank);

// Runs of the layout that several ranks of the tensor-parallel group hold, each with a partial sum of the gradient.
struct SharedRun {
  FlatRun run;
  int first_holder, holders;  // ranks of the group
  friend bool operator==(const SharedRun&, const SharedRun&) = default;
};
[[nodiscard]] std::vector<SharedRun> shared_runs(const Layout&);

}  // namespace partita::internal
