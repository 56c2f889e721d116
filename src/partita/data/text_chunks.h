// Cuts input files into chunks of whole documents: the tasks of parallel work.
//
//   ChunkReader reader(expand_inputs(patterns), options);
//   while (auto chunk = reader.next()) work_on(*chunk);
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "partita/base/file.h"
#include "partita/data/text_input.h"

namespace partita {

// Whole documents of one file.
struct TextChunk {
  std::shared_ptr<const MappedFile> file;
  std::string_view text;
  int64_t first_byte = 0;  // in the file
  bool json = false;
};

// Cuts files into chunks of about `chunk_bytes`, at ends of documents only. Error: a file that cannot be read.
class ChunkReader {
 public:
  ChunkReader(std::vector<std::filesystem::path> files, TextInputOptions options, int64_t chunk_bytes = 1 << 20);
  [[nodiscard]] std::optional<TextChunk> next();
  [[nodiscard]] int64_t total_bytes() const { return total_bytes_; }  // of all files

 private:
  std::vector<std::filesystem::path> files_;
  TextInputOptions options_;
  int64_t chunk_bytes_, total_bytes_ = 0;
  size_t next_file_ = 0, at_ = 0;
  std::shared_ptr<const MappedFile> file_;
};

}  // namespace partita
