// Fuzzes the reader of safetensors headers: for any bytes, it throws Error or returns tensors inside the file.
#include <cstdlib>
#include <span>

#include "partita/base/error.h"
#include "partita/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const partita::internal::SafetensorsHeader header =
        partita::internal::parse_safetensors(std::as_bytes(std::span(data, size)), "x");
    int64_t end = 0;
    for (const partita::internal::SafetensorsEntry& e : header.entries) {
      if (e.begin != end || e.end < e.begin) std::abort();
      end = e.end;
    }
    if (header.data_begin + end != static_cast<int64_t>(size)) std::abort();
  } catch (const partita::Error&) {
  }
  return 0;
}
