// The pickle inside torch.save's files, read without running anything of it: a pickle is a program, and a general
// reader of pickles does whatever its author wrote. This one knows only what a dictionary of tensors needs, by name,
// and refuses all else before it has any effect.
//
//   for (const PickledTensor& t : unpickle_tensors(bytes, "pytorch_model.bin"))
//     ...   // t.name [t.shape] is in the storage t.storage
//
// Known are dictionaries, tuples, lists, numbers, texts, storages by persistent id, and the calls
// collections.OrderedDict(), torch._utils._rebuild_tensor_v2 and _rebuild_parameter. (Opcodes: Python's
// Lib/pickletools.py, protocols 2 to 5; the calls: torch/_utils.py.)
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
  std::vector<int64_t> shape, strides;  // equally many
  std::string storage;                  // its key: the archive's file PREFIX/data/KEY
  int64_t storage_count = 0;            // its elements
  int64_t offset = 0;
};

// In the dictionary's order. What a tensor says of itself is not checked against the storage. Error: an opcode or name
// that is not known (with its place), a damaged pickle, a dictionary of other things than tensors, a name twice. `path`
// is for the message.
[[nodiscard]] std::vector<PickledTensor> unpickle_tensors(std::span<const std::byte> pickle,
                                                          const std::filesystem::path& path);

}  // namespace partita::internal
