// Fuzzes the pickle reader without the surrounding archive, which would stop most mutations: for any bytes, it throws
// Error or returns tensors with as many strides as sizes.
#include <cstdlib>
#include <span>

#include "partita/base/error.h"
#include "partita/interop/torch_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const partita::internal::PickledTensor& t :
         partita::internal::unpickle_tensors(std::as_bytes(std::span(data, size)), "x"))
      if (t.shape.size() != t.strides.size() || t.storage_count < 0) std::abort();
  } catch (const partita::Error&) {
  }
  return 0;
}
