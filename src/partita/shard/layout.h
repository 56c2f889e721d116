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
  std::vector<ParameterSpec> parameters;  // those with weight decay first, to keep runs per slice few
  std::vector<int64_t> begin;             // [parameter]: a multiple of kAlignment
  int64_t count = 0;                      // elements, a multiple of ranks * kAlignment; padding is always zero
  int ranks = 1;

  [[nodiscard]] int64_t slice_count() const { return count / ranks; }
};

[[nodiscard]] Layout make_layout(std::vector<ParameterSpec> parameters, int ranks);

// A run of one parameter within a slice. in_slice is relative to the start of the slice.
struct Segment {
  int parameter;  // index in Layout::parameters
  int64_t in_parameter, in_slice, count;
};

// Segments of the slice of `rank`, in order; padding belongs to none.
[[nodiscard]] std::vector<Segment> slice_segments(const Layout&, int rank);

}  // namespace partita::internal
