#include "partita/nn/block.h"

namespace partita {

std::vector<BufferSpec> Block::operands(const Shape& shape, BlockRecompute, DType dtype,
                                        const std::vector<bool>& trained) const {
  std::vector<BufferSpec> list;
  const std::vector<ParameterSpec> all = parameters();
  for (size_t p = 0; p < all.size(); ++p) {
    const std::vector<int64_t> matrix = all[p].local_shape();
    if (!trained[p] || matrix.size() != 2) continue;
    list.push_back({"d_y", {shape.rows(), matrix[0]}, dtype});
    list.push_back({"x", {shape.rows(), matrix[1]}, dtype});
  }
  return list;
}

}  // namespace partita
