#include "partita/data/npy.h"

#include <string>

#include "partita/base/error.h"

namespace partita::internal {

AtomicFile npy_file(const std::filesystem::path& path, std::string_view type, std::span<const std::byte> values,
                    int64_t rows, int64_t columns) {
  constexpr size_t kAligned = 64, kBefore = 10;  // kBefore: magic, version and length precede the header
  const std::string shape = columns == 0 ? fmt::format("({},)", rows) : fmt::format("({}, {})", rows, columns);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.append(kAligned - (kBefore + header.size() + 1) % kAligned, ' ');
  header += '\n';
  AtomicFile file(path);
  file.write(std::string_view("\x93NUMPY\x01\x00", 8));
  const auto size = static_cast<uint16_t>(header.size());
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(header);
  file.write(values);
  return file;
}

}  // namespace partita::internal
