#include "partita/interop/strided_elements.h"

#include <algorithm>
#include <array>
#include <span>

#include "partita/checkpoint/elements.h"

namespace partita::internal {
namespace {

std::span<float> run(float* out, int64_t count) { return {out, static_cast<size_t>(count)}; }

// Rows that are adjacent in memory: reads column by column in tiles of a few rows, so that source and destination stay
// in cache.
void read_columns(const StridedElements& from, const Box& box, float* out, int64_t out_stride) {
  constexpr int64_t kTile = 64;
  std::array<float, kTile> tile{};
  for (int64_t r = 0; r < box.rows; r += kTile) {
    const int64_t count = std::min(kTile, box.rows - r);
    for (int64_t c = 0; c < box.columns; ++c) {
      to_fp32(from.type, from.at(box.row + r, box.column + c), 1, run(tile.data(), count));
      for (int64_t i = 0; i < count; ++i) out[(r + i) * out_stride + c] = tile[static_cast<size_t>(i)];
    }
  }
}

}  // namespace

void read_elements(const StridedElements& from, const Box& box, float* out, int64_t out_stride) {
  const bool dense = out_stride == box.columns;
  if (dense && from.column_stride == 1 && from.row_stride == box.columns)
    return to_fp32(from.type, from.at(box.row, box.column), 1, run(out, box.count()));
  if (dense && box.columns == 1)
    return to_fp32(from.type, from.at(box.row, box.column), from.row_stride, run(out, box.rows));
  if (from.row_stride == 1 && from.column_stride != 1 && box.rows > 1) return read_columns(from, box, out, out_stride);
  for (int64_t r = 0; r < box.rows; ++r)
    to_fp32(from.type, from.at(box.row + r, box.column), from.column_stride, run(out + r * out_stride, box.columns));
}

}  // namespace partita::internal
