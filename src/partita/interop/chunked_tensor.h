// A tensor that is stored in parts: by the ranks of a job of another trainer, in one file or several.
//
//   ChunkedTensor tensor{{4, 6}, ElementType::bf16, "BF16", {{{0, 0}, {2, 6}, open_top}, {{2, 0}, {2, 6}, open_rest}}};
//   check_chunks("model.norm.weight", tensor);
//
// Opening a chunk finds its elements in a memory-mapped file; nothing is read until they are used.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/interop/mapped_tensor.h"

namespace partita::internal {

struct TensorChunk {
  std::vector<int64_t> offsets, sizes;  // of its first element in the tensor; as many as the tensor's dimensions
  std::function<MappedTensor()> open;   // its elements, in the chunk's shape. Error: damaged
};

struct ChunkedTensor {
  std::vector<int64_t> shape;
  std::optional<ElementType> type;  // empty: one that is not read
  std::string type_name;            // for messages
  std::vector<TensorChunk> chunks;
};
using ChunkedTensors = std::map<std::string, ChunkedTensor, std::less<>>;

// Error: elements of the tensor are in no chunk or in two, says which; more of them than 63 bits count. Tensors of up
// to three dimensions.
void check_chunks(std::string_view name, const ChunkedTensor&);

}  // namespace partita::internal
