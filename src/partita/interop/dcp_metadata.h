// The file .metadata of a folder of torch.distributed.checkpoint (PyTorch DCP): which tensors it holds, and in which
// bytes of which file each part of them is.
//
//   const DcpMetadata metadata = parse_dcp_metadata(file.bytes(), file.path());
//   for (const DcpChunk& chunk : metadata.tensors.at("model.norm.weight").chunks) ...
//
// It is a pickle of torch.distributed.checkpoint.metadata.Metadata, read without executing it: only the classes that
// torch 2.1 to 2.11 and Megatron-LM write are accepted, by name (pickle_machine.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

// Bytes [offset, offset + length) of a file in the folder; they are a file of torch.save (torch_file.h).
struct DcpPlace {
  std::string file;
  int64_t offset = 0, length = 0;
};
// The part of a tensor from `offsets` on.
struct DcpChunk {
  std::vector<int64_t> offsets, sizes;  // as many as the tensor's dimensions
  DcpPlace place;
};
struct DcpTensor {
  std::vector<int64_t> shape;
  std::string dtype;  // "torch.float32"
  std::vector<DcpChunk> chunks;
};

struct DcpMetadata {
  std::map<std::string, DcpTensor, std::less<>> tensors;
  std::map<std::string, DcpPlace, std::less<>> objects;  // everything that is not a tensor, pickled on its own
};

// Error: a damaged pickle, a name that is not allowed (with its position); a chunk that exceeds its tensor, is in no
// file, or is in a file outside the folder; bytes that were compressed or otherwise transformed. Whether the chunks of
// a tensor cover it is not checked here.
[[nodiscard]] DcpMetadata parse_dcp_metadata(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace partita::internal
