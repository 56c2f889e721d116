// Fuzzes the reader of torch.save files, archive and pickle: for any bytes, it throws Error or returns tensors whose
// elements are all inside the file.
#include <cstdlib>
#include <span>

#include "partita/base/error.h"
#include "partita/interop/torch_file.h"

namespace {

// Where its last element ends, in bytes from the first; the tensor was accepted, so nothing of this overflows.
int64_t reach(const partita::internal::TorchTensor& t) {
  int64_t last = 0;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (t.shape[d] == 0) return 0;
    last += (t.shape[d] - 1) * t.strides[d];
  }
  return (last + 1) * partita::internal::size_of(t.type);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const partita::internal::TorchTensor& t :
         partita::internal::parse_torch_file(std::as_bytes(std::span(data, size)), "x"))
      if (t.begin < 0 || t.end > static_cast<int64_t>(size) || t.end - t.begin != reach(t)) std::abort();
  } catch (const partita::Error&) {
  }
  return 0;
}
