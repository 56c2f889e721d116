#include "partita/interop/chunked_tensor.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/checkpoint/reshard.h"
#include "partita/checkpoint/tiling.h"

namespace partita::internal {

// As boxes of a matrix with the last dimension as its columns, and everything before as rows.
void check_chunks(std::string_view name, const ChunkedTensor& tensor) {
  const size_t dimensions = tensor.shape.size();
  PARTITA_CHECK(dimensions <= 3, "{} of {} dimensions", name, dimensions);
  // Dimensions in front of the first are of size 1.
  const auto at = [&](const std::vector<int64_t>& list, size_t d, int64_t otherwise) {
    return d + dimensions < 3 ? otherwise : list[d + dimensions - 3];
  };
  const int64_t rows = at(tensor.shape, 1, 1);
  int64_t elements = 1;
  for (const int64_t size : tensor.shape)
    if (__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements))
      fail("'{}' has an impossible shape {}: copy or write the checkpoint again", name, shape_text(tensor.shape));
  std::vector<Box> boxes;
  for (const TensorChunk& chunk : tensor.chunks) {
    Box box{.row = at(chunk.offsets, 1, 0),
            .rows = at(chunk.sizes, 1, 1),
            .column = at(chunk.offsets, 2, 0),
            .columns = at(chunk.sizes, 2, 1)};
    const int64_t first = at(chunk.offsets, 0, 0), count = at(chunk.sizes, 0, 1);
    for (int64_t i = first; i < first + count; ++i) {
      Box moved = box;
      moved.row += i * rows;
      if (moved.count() > 0) boxes.push_back(moved);
    }
  }
  check_tiling({.name = std::string(name), .shape = {at(tensor.shape, 0, 1) * rows, at(tensor.shape, 2, 1)}},
               std::move(boxes));
}

}  // namespace partita::internal
