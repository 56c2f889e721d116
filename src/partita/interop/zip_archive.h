// Locates the uncompressed files inside a zip archive. torch.save writes such archives, so tensors can be
// memory-mapped.
//
//   for (const ZipEntry& entry : parse_zip(file.bytes(), file.path())) ...  // bytes [entry.begin, entry.end)
//
// The format is PKWARE's APPNOTE.TXT with its 64-bit extension: each file follows a local header; after the files comes
// a central directory that lists them, then the record that locates the directory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

struct ZipEntry {
  std::string name;
  int64_t begin = 0, end = 0;
  uint32_t crc = 0;  // CRC-32 of its bytes; 0: not written (torch.serialization.set_crc32_options(False))
};

// Whether the first bytes are those of a zip archive.
[[nodiscard]] bool is_zip(std::span<const std::byte> file);

// Entries in the order of their data. Error: a truncated archive, a directory or header that does not match the file,
// entries that overlap, share a name, or are compressed or encrypted; names `path` and the entry. The entries' data is
// not read.
[[nodiscard]] std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, const std::filesystem::path& path);

// Verifies the CRC, reading all bytes. Error: mismatch. `name` is the entry's.
void check_zip_crc(std::span<const std::byte> bytes, uint32_t crc, std::string_view name,
                   const std::filesystem::path& path);

}  // namespace partita::internal
