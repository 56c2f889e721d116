// Cuts input files into chunks of whole documents: the tasks of parallel work.
//
//   ChunkReader reader(expand_inputs(patterns), options);
//   while (auto chunk = reader.next()) work_on(*chunk);
//
// Plain files are mapped, and their pages come in where the chunks are worked on. Compressed files, pipes and standard
// input are read by threads of their own: compressed files some files ahead, pipes in their turn, since who writes to
// several of them may well do it one after the other.
#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/text/read_ahead.h"
#include "partita/text/text_input.h"

namespace partita::internal {

// Whole documents of one file.
struct TextChunk {
  std::string name;  // of the file, for messages
  std::shared_ptr<const void> owner;
  std::string_view text;
  int64_t first_byte = 0;   // in the (decompressed) file
  int64_t input_bytes = 0;  // of the file as it lies there; those of all chunks add up to it, if there is any
  bool json = false;
  bool mapped = false;  // of a plain regular file
  // After `text`, where these are not 0, came a document of this many bytes, longer than the options allow: it was not
  // kept.
  int64_t skipped_bytes = 0;
  int64_t skipped_lines = 0;
};

// The next chunks of one file. Implementation of ChunkReader.
class FileChunks {
 public:
  virtual ~FileChunks() = default;
  [[nodiscard]] virtual std::optional<TextChunk> next() = 0;
};

// Cuts files into chunks of about `chunk_bytes`, at ends of documents only. Memory does not grow with the length of a
// document beyond what TextInputOptions allow. Error: a file that cannot be read, or not
// decompressed.
class ChunkReader {
 public:
  ChunkReader(std::vector<std::filesystem::path> files, TextInputOptions options, int64_t chunk_bytes = 1 << 20);
  [[nodiscard]] std::optional<TextChunk> next();
  // Of all files, as they lie there; nothing where it is not known (standard input, pipes).
  [[nodiscard]] std::optional<int64_t> total_bytes() const { return total_bytes_; }

 private:
  static constexpr size_t kFilesAhead = 4;

  enum class Kind : uint8_t { plain, compressed, pipe };
  struct Waiting {
    std::filesystem::path file;
    Kind kind;
    std::unique_ptr<ReadAhead> ahead;  // of one that is not mapped, once it is begun
  };
  [[nodiscard]] std::unique_ptr<FileChunks> open_next();

  TextInputOptions options_;
  size_t chunk_bytes_;
  std::optional<int64_t> total_bytes_ = 0;
  std::deque<Waiting> waiting_;
  std::unique_ptr<FileChunks> current_;
};

}  // namespace partita::internal
