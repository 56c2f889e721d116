// A tensor in a memory-mapped file of another program, wherever its elements lie, and the checksum over them.
//
//   const MappedTensor tensor{ElementType::bf16, {4, 6}, {1, 4}, bytes, storage};   // transposed
//   verify(tensor);                                                                 // before its first element is read
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

// A checksummed range of a file, verified when a tensor in it is first read (verify).
struct MappedStorage {
  std::span<const std::byte> bytes;
  uint32_t crc = 0;
  std::string name;
  std::filesystem::path file;
  bool checked = false;
};

// Element [i, j] is element i strides[0] + j strides[1] of `bytes`, which need not be aligned.
struct MappedTensor {
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape, strides;               // in elements, never negative
  std::span<const std::byte> bytes;                  // from the first element through the last
  std::shared_ptr<MappedStorage> storage = nullptr;  // nullptr: the format has no checksums (safetensors)
};

// Verifies the checksum of the tensor's storage, which reads all of it; only once for tensors that share a storage.
// Error: damaged; names file and storage. Not thread-safe.
void verify(const MappedTensor&);

}  // namespace partita::internal
