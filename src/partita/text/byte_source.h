// Reads a file or standard input, decompressing it if necessary.
//
//   const std::unique_ptr<ByteSource> source = open_bytes("corpus.jsonl.gz");
//   while (const size_t n = source->read(buffer)) use(buffer.first(n));
//
// gzip (including several members, as from bgzip and `cat a.gz b.gz`) and zstd (including several frames, as from
// pzstd) are recognized by their first bytes, not by file name. Content that is not text is an error that names its
// format.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace partita::internal {

enum class Compression : uint8_t { none, gzip, zstd };

// Compression of content with this beginning; kForeignFormatBytes suffice. Error: refuse_foreign_format.
[[nodiscard]] Compression compression_of(std::string_view head, std::string_view name);

// The same for a regular file. Error: it cannot be read.
[[nodiscard]] Compression compression_of(const std::filesystem::path& file);

// Error: content with this beginning is not text (base/foreign_format.h).
void refuse_foreign_format(std::string_view head, std::string_view name);

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `out`; returns 0 at the end. Error: truncated or damaged content, a failing disk.
  [[nodiscard]] virtual size_t read(std::span<char> out) = 0;
  // Bytes read from the file so far, before decompression.
  [[nodiscard]] virtual int64_t consumed() const = 0;
  // Thread-safe. A read that waits for a pipe, and every later read from the file, fails with an error.
  virtual void interrupt() = 0;
};

constexpr std::string_view kStandardInput = "-";
[[nodiscard]] inline bool is_standard_input(const std::filesystem::path& file) { return file == kStandardInput; }
// "standard input", or the path, for messages.
[[nodiscard]] std::string input_name(const std::filesystem::path& file);

// "-" means standard input.
[[nodiscard]] std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& file);

}  // namespace partita::internal
