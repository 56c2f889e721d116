// Compresses texts with gzip and zstd.
#pragma once
#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace partita::internal {

// A member of a gzip file.
inline std::string gzip(std::string_view text) {
  std::string out(text.size() + 1000, '\0');
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uint32_t>(text.size());
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = static_cast<uint32_t>(out.size());
  stream.end_of_stream = 1;
  if (isal_deflate_stateless(&stream) != COMP_OK) throw std::runtime_error("gzip");
  out.resize(out.size() - stream.avail_out);
  return out;
}

// A frame of a zstd file.
inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(size) != 0) throw std::runtime_error("zstd");
  out.resize(size);
  return out;
}

}  // namespace partita::internal
