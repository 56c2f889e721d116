// Reads the pickle inside torch.save files without executing it. A pickle is a program, and a general unpickler runs
// whatever its author wrote; this one accepts only the operations that a dictionary of tensors needs, by name, and
// rejects everything else before it has any effect.
//
//   for (const PickledTensor& t : unpickle_tensors(bytes, "pytorch_model.bin"))
//     ...   // t.name [t.shape] is in the storage t.storage
//
// Accepted are dictionaries, tuples, lists, numbers, strings, storages by persistent id, and calls of
// collections.OrderedDict(), torch._utils._rebuild_tensor_v2 and _rebuild_parameter. (Opcodes: Python's
// Lib/pickletools.py, protocols 2 to 5; calls: torch/_utils.py.)
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

// Element [i, j] is element offset + i strides[0] + j strides[1] of the storage.
struct PickledTensor {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape, strides;  // same length
  std::string storage;                  // key of the storage: the archive's file PREFIX/data/KEY
  int64_t storage_count = 0;            // elements in the storage
  int64_t offset = 0;
};

// In dictionary order. A tensor's shape and strides are not checked against its storage. Error: an unknown opcode or
// name (with its position), a damaged pickle, a dictionary of anything but tensors, a duplicate name. `path` is for the
// message.
[[nodiscard]] std::vector<PickledTensor> unpickle_tensors(std::span<const std::byte> pickle,
                                                          const std::filesystem::path& path);

}  // namespace partita::internal
