// Reads a rectangle of a matrix whose rows and columns may lie anywhere in memory, as fp32: transposed, part of a
// larger one, every other row.
//
//   const StridedElements from{tensor.type, tensor.bytes.data(), tensor.strides[0], tensor.strides[1]};
//   read_elements(from, {.row = 2, .rows = 3, .columns = 5}, out, 5);
#pragma once
#include <cstddef>
#include <cstdint>

#include "partita/checkpoint/safetensors.h"
#include "partita/nn/box.h"

namespace partita::internal {

// Element [row, column] is at element row * row_stride + column * column_stride of `data`, which need not be aligned.
struct StridedElements {
  ElementType type = ElementType::f32;
  const std::byte* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;

  [[nodiscard]] const std::byte* at(int64_t row, int64_t column) const {
    return data + (row * row_stride + column * column_stride) * size_of(type);
  }
};

// out[r * out_stride + c] = element [box.row + r, box.column + c]. Error: not a floating-point type.
void read_elements(const StridedElements& from, const Box& box, float* out, int64_t out_stride);

}  // namespace partita::internal
