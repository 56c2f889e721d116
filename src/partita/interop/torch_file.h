// torch.save's files (pytorch_model.bin): where each tensor lies in them.
//
//   const MappedFile file("pytorch_model.bin");
//   for (const TorchTensor& t : parse_torch_file(file.bytes(), file.path())) ...
//
// Such a file is a zip archive since torch 1.6: PREFIX/data.pkl says which tensors there are (torch_pickle.h),
// PREFIX/data/KEY is a storage, little-endian. Tensors may share a storage (tied weights) and need not be contiguous.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partita/checkpoint/safetensors.h"
#include "partita/interop/zip_archive.h"

namespace partita::internal {

struct TorchTensor {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape, strides;  // strides in elements, not negative
  int64_t begin = 0, end = 0;           // bytes of the file, from its first element to its last
  // The storage that it is a part of, whose checksum nobody has compared yet (zip_archive.h).
  ZipEntry storage;
};

// Error: a format older than torch 1.6, a damaged archive, what torch_pickle.h refuses, a tensor that reaches beyond
// its storage or whose storage is missing or of another length; names `path` and the tensor. The list of tensors is
// compared with its checksum, their elements are not looked at.
[[nodiscard]] std::vector<TorchTensor> parse_torch_file(std::span<const std::byte> file,
                                                        const std::filesystem::path& path);

}  // namespace partita::internal
