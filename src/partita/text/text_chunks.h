// Splits input files into chunks of whole documents, the tasks for parallel work.
//
//   ChunkReader reader(expand_inputs(patterns), options);
//   while (auto chunk = reader.next()) work_on(*chunk);
//
// Plain files are memory-mapped, and pages are loaded where chunks are processed. Compressed files, pipes and standard
// input are read by separate threads: compressed files several files ahead, pipes in order, because their writer may
// fill them one after the other.
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
  std::string name;  // file name, for messages
  std::shared_ptr<const void> owner;
  std::string_view text;
  int64_t first_byte = 0;   // offset in the (decompressed) file
  int64_t input_bytes = 0;  // bytes of the file as stored; the chunks' values add up to its size
  bool json = false;
  bool mapped = false;  // from a plain regular file
  // If not 0: `text` was followed by a document of this many bytes that exceeds the limit and was dropped.
  int64_t skipped_bytes = 0;
  int64_t skipped_lines = 0;
};

// Iterates over the chunks of one file. Implementation of ChunkReader.
class FileChunks {
 public:
  virtual ~FileChunks() = default;
  [[nodiscard]] virtual std::optional<TextChunk> next() = 0;
};

// Splits files into chunks of about `chunk_bytes`, only at document ends. Memory is bounded by the document limits of
// TextInputOptions. Error: a file that cannot be read or decompressed.
class ChunkReader {
 public:
  ChunkReader(std::vector<std::filesystem::path> files, TextInputOptions options, int64_t chunk_bytes = 1 << 20);
  [[nodiscard]] std::optional<TextChunk> next();
  // Total size of all files as stored; empty if unknown (standard input, pipes).
  [[nodiscard]] std::optional<int64_t> total_bytes() const { return total_bytes_; }

 private:
  static constexpr size_t kFilesAhead = 4;

  enum class Kind : uint8_t { plain, compressed, pipe };
  struct Waiting {
    std::filesystem::path file;
    Kind kind;
    std::unique_ptr<ReadAhead> ahead;  // for a file that is not mapped, once started
  };
  [[nodiscard]] std::unique_ptr<FileChunks> open_next();

  TextInputOptions options_;
  size_t chunk_bytes_;
  std::optional<int64_t> total_bytes_ = 0;
  std::deque<Waiting> waiting_;
  std::unique_ptr<FileChunks> current_;
};

}  // namespace partita::internal
