// Locates the tensors in files written by torch.save (pytorch_model.bin).
//
//   const MappedFile file("pytorch_model.bin");
//   for (const TorchTensor& t : parse_torch_file(file.bytes(), file.path())) ...
//
// Since torch 1.6 such a file is a zip archive: PREFIX/data.pkl describes the tensors (torch_pickle.h), and
// PREFIX/data/KEY is a little-endian storage. Tensors may share a storage (tied weights) and need not be contiguous.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "partita/checkpoint/safetensors.h"
#include "partita/interop/torch_pickle.h"
#include "partita/interop/zip_archive.h"

namespace partita::internal {

struct TorchTensor {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape, strides;  // strides in elements, not negative
  int64_t begin = 0, end = 0;           // byte range in the file, from the first element through the last
  // The storage that contains it; its checksum has not been verified yet (zip_archive.h).
  ZipEntry storage;
};

// A file of torch.save whose storages are located, and whose pickle its reader interprets.
class TorchArchive {
 public:
  // `file` and `path` must outlive this. Verifies the checksum of data.pkl. Error: a format older than torch 1.6, a
  // damaged archive.
  TorchArchive(std::span<const std::byte> file, const std::filesystem::path& path);

  [[nodiscard]] std::span<const std::byte> pickle() const;
  // Error: a tensor that exceeds its storage or whose storage is missing or of another length; names the tensor.
  [[nodiscard]] TorchTensor locate(PickledTensor) const;

 private:
  std::span<const std::byte> file_;
  const std::filesystem::path& path_;
  std::map<std::string, ZipEntry, std::less<>> entries_;
  std::string prefix_;
};

// The tensors of a file that holds a dictionary of them. Errors: those of TorchArchive and of unpickle_tensors. The
// tensors' elements are not read.
[[nodiscard]] std::vector<TorchTensor> parse_torch_file(std::span<const std::byte> file,
                                                        const std::filesystem::path& path);

// The tensor of a file that holds just one; `name` is for messages. Errors: as above.
[[nodiscard]] TorchTensor parse_torch_tensor(std::span<const std::byte> file, const std::filesystem::path& path,
                                             std::string name);

}  // namespace partita::internal
