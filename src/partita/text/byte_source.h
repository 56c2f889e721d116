// Bytes of a file or of standard input, decompressed where they are compressed.
//
//   const std::unique_ptr<ByteSource> source = open_bytes("corpus.jsonl.gz");
//   while (const size_t n = source->read(buffer)) use(buffer.first(n));
//
// gzip (also of several members, as bgzip and `cat a.gz b.gz` make them) and zstd (also of several frames, and
// as pzstd makes them) are recognised by their first bytes, not by the file's name; what is not text at all is named.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace partita::internal {

enum class Compression : uint8_t { none, gzip, zstd };

// Of content that begins so; kForeignFormatBytes are enough. Error: refuse_foreign_format.
[[nodiscard]] Compression compression_of(std::string_view head, std::string_view name);

// The same of a regular file. Error: it cannot be read.
[[nodiscard]] Compression compression_of(const std::filesystem::path& file);

// Error: content that begins so is not text (base/foreign_format.h).
void refuse_foreign_format(std::string_view head, std::string_view name);

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `out`; 0: the end. Error: cut short, damaged, a failing disk.
  [[nodiscard]] virtual size_t read(std::span<char> out) = 0;
  // Bytes taken from the file so far, as they lie there.
  [[nodiscard]] virtual int64_t consumed() const = 0;
  // From any thread: a read that waits for a pipe, and every later one that would ask the file, ends with an error.
  virtual void interrupt() = 0;
};

constexpr std::string_view kStandardInput = "-";
[[nodiscard]] inline bool is_standard_input(const std::filesystem::path& file) { return file == kStandardInput; }
// "standard input", or the path: for messages.
[[nodiscard]] std::string input_name(const std::filesystem::path& file);

// "-" is standard input.
[[nodiscard]] std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& file);

}  // namespace partita::internal
