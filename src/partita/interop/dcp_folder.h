// A folder of torch.distributed.checkpoint (PyTorch DCP): .metadata and files __RANK_NUMBER.distcp, as FSDP,
// torchtitan, accelerate and Megatron-LM (torch_dist) write it.
//
//   const DcpFolder folder("checkpoint/step-1000");
//   const ChunkedTensors tensors = folder.tensors();
//
// Only .metadata is read at first. A .distcp file is mapped when a tensor in it is first read; it holds files of
// torch.save one behind another, whose checksums are verified as far as they are read.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "partita/base/file.h"
#include "partita/interop/chunked_tensor.h"
#include "partita/interop/dcp_metadata.h"

namespace partita::internal {

inline constexpr const char* kDcpMetadata = ".metadata";

class DcpFolder {
 public:
  // Errors: those of parse_dcp_metadata; a .distcp file that is missing or shorter than the metadata says.
  explicit DcpFolder(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // A chunk's errors when it is opened: it is no file of torch.save, or holds another tensor than the metadata says.
  [[nodiscard]] ChunkedTensors tensors() const;
  // The file of torch.save that holds an object which is not a tensor, with its own name for messages; empty: there is
  // none.
  [[nodiscard]] std::span<const std::byte> object(std::string_view name) const;

 private:
  class Files;

  std::filesystem::path path_;
  DcpMetadata metadata_;
  std::shared_ptr<Files> files_;  // shared with the chunks
};

}  // namespace partita::internal
