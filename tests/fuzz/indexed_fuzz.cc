// Fuzzes the reader of token file indexes (.idx): for any bytes, it throws Error or returns consistent data within the
// bounds of the file.
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "partita/base/error.h"
#include "partita/data/indexed_format.h"

namespace {

template <class T>
T load(std::string_view file, int64_t at) {
  if (at < 0 || static_cast<size_t>(at) + sizeof(T) > file.size()) std::abort();
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const partita::IndexHeader header = partita::internal::parse_header(file, "x");
    if (header.file_bytes() != static_cast<int64_t>(size)) std::abort();
    const int64_t tokens = partita::internal::check_index(header, file, "x");
    int64_t sum = 0;
    for (int64_t s = 0; s < header.sequences; ++s) sum += load<int32_t>(file, header.lengths_at() + 4 * s);
    if (sum != tokens) std::abort();
    for (int64_t d = 0; d < header.documents; ++d) {
      const auto begin = load<int64_t>(file, header.document_ends_at() + 8 * d);
      const auto end = load<int64_t>(file, header.document_ends_at() + 8 * d + 8);
      if (begin < 0 || end < begin || end > header.sequences) std::abort();
    }
  } catch (const partita::Error&) {
  }
  return 0;
}
