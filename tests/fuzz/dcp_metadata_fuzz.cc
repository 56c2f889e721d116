// Fuzzes the reader of .metadata of torch.distributed.checkpoint: for any bytes, it throws Error or returns chunks that
// are inside their tensors, in files of the folder.
#include <cstdlib>
#include <span>

#include "partita/base/error.h"
#include "partita/interop/dcp_metadata.h"

namespace {

bool is_inside(const partita::internal::DcpChunk& chunk, const std::vector<int64_t>& shape) {
  if (chunk.offsets.size() != shape.size() || chunk.sizes.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (chunk.offsets[d] < 0 || chunk.sizes[d] < 0 || chunk.offsets[d] > shape[d] ||
        chunk.sizes[d] > shape[d] - chunk.offsets[d])
      return false;
  const partita::internal::DcpPlace& place = chunk.place;
  return place.offset >= 0 && place.length >= 0 && !place.file.empty() && place.file.find('/') == std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const auto& [name, tensor] :
         partita::internal::parse_dcp_metadata(std::as_bytes(std::span(data, size)), "x").tensors)
      for (const partita::internal::DcpChunk& chunk : tensor.chunks)
        if (!is_inside(chunk, tensor.shape)) std::abort();
  } catch (const partita::Error&) {
  }
  return 0;
}
