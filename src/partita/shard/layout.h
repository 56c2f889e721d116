// How the parameters of a unit lie in one flat buffer, and what of it each rank holds. Pure arithmetic.
//
// A *unit* is what is gathered and reduced as one. One layout serves its weights, gradients, master weights and
// moments, whatever their dtype: offsets count elements. Shards are equal slices of the buffer; a parameter may cross
// from one into the next.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/nn/parameter.h"

namespace partita::internal {

// Parameters begin at multiples of this many elements (256 bytes in bf16), as do slices.
inline constexpr int64_t kAlignment = 128;

struct Layout {
  std::vector<ParameterSpec> parameters;  // those with decay first: few runs in a slice
  std::vector<int64_t> begin;             // of each parameter; a multiple of kAlignment
  int64_t count = 0;                      // of the buffer: a multiple of ranks * kAlignment; padding is zero, always
  int ranks = 1;

  [[nodiscard]] int64_t slice_count() const { return count / ranks; }
};

[[nodiscard]] Layout make_layout(std::vector<ParameterSpec> parameters, int ranks);

// A run of one parameter inside a slice. in_slice counts from the slice's own begin.
struct Segment {
  int parameter;  // index in Layout::parameters
  int64_t in_parameter, in_slice, count;
};

// What lies in the slice of `rank`, in order; padding is in no segment.
[[nodiscard]] std::vector<Segment> slice_segments(const Layout&, int rank);

}  // namespace partita::internal
