// The files inside a zip archive that are stored as they are, not compressed: where each lies in the archive. That is
// the form of torch.save's files, so that their tensors can be read through a map.
//
//   for (const ZipEntry& entry : parse_zip(file.bytes(), file.path())) ...  // bytes [entry.begin, entry.end)
//
// The format is APPNOTE.TXT of PKWARE, with its 64-bit extension: each file behind a local header, then a central
// directory that lists them, then the record that says where that is.
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
  uint32_t crc = 0;  // CRC-32 of its bytes; 0: none was written (torch.serialization.set_crc32_options(False))
};

// Whether the first bytes are those of a zip archive.
[[nodiscard]] bool is_zip(std::span<const std::byte> file);

// In the order of their data. Error: cut short, a directory or header that does not fit the file, entries that overlap,
// have one name or are compressed or encrypted; names `path`, and the entry. The entries' bytes are not looked at.
[[nodiscard]] std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, const std::filesystem::path& path);

// Error unless the bytes are those that were written; reads them all. `name` is the entry's.
void check_zip_crc(std::span<const std::byte> bytes, uint32_t crc, std::string_view name,
                   const std::filesystem::path& path);

}  // namespace partita::internal
