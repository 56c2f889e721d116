// Checksums of what a checkpoint stores: XXH3 (64 bits), of chunks of a piece, so that a rank that wants a part of a
// large piece need not read all of it.
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

// Bytes of a chunk; the last of a piece may be shorter. Divisible by every element size.
inline constexpr int64_t kChunkBytes = int64_t{16} << 20;

[[nodiscard]] constexpr int64_t chunk_count(int64_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

// The chunk of that number of `bytes`.
[[nodiscard]] inline std::span<const std::byte> chunk_of(std::span<const std::byte> bytes, int64_t number) {
  const int64_t begin = number * kChunkBytes, size = std::min(kChunkBytes, std::ssize(bytes) - begin);
  return bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

[[nodiscard]] uint64_t checksum(std::span<const std::byte> bytes);
[[nodiscard]] uint64_t checksum(std::string_view text);

// Sixteen hexadecimal digits, as the manifest holds it, and back. Error: no such text.
[[nodiscard]] std::string checksum_text(uint64_t);
[[nodiscard]] uint64_t parse_checksum(std::string_view text);

}  // namespace partita::internal
