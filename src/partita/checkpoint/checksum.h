// Checksums of stored data: XXH3 (64 bits) per chunk, so that a rank that needs part of a large piece does not have to
// read all of it.
//
//   for (int64_t c = 0; c < chunk_count(std::ssize(piece)); ++c) sums.push_back(checksum(chunk_of(piece, c)));
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace partita::internal {

// Chunk size in bytes; a piece's last chunk may be shorter. Divisible by every element size.
inline constexpr int64_t kChunkBytes = int64_t{16} << 20;

[[nodiscard]] constexpr int64_t chunk_count(int64_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

// The given chunk of `bytes`.
[[nodiscard]] inline std::span<const std::byte> chunk_of(std::span<const std::byte> bytes, int64_t number) {
  const int64_t begin = number * kChunkBytes, size = std::min(kChunkBytes, std::ssize(bytes) - begin);
  return bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

[[nodiscard]] uint64_t checksum(std::span<const std::byte> bytes);
[[nodiscard]] uint64_t checksum(std::string_view text);

// Conversion to and from the manifest's 16 hexadecimal digits. Error: not in that format.
[[nodiscard]] std::string checksum_text(uint64_t);
[[nodiscard]] uint64_t parse_checksum(std::string_view text);

}  // namespace partita::internal
