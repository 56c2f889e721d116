#include "partita/data/text_chunks.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/data/text_lines.h"

namespace partita {
namespace {

// Where the chunk that begins at `begin` ends: at the first end of a document that is `wanted` bytes away.
size_t chunk_end(std::string_view text, size_t begin, size_t wanted, bool json, const TextInputOptions& options) {
  if (text.size() - begin <= wanted) return text.size();
  if (json) return line_end(text, begin + wanted);
  if (!options.separator) return text.size();
  // Separators are whole lines: begin to look at the next line's start.
  for (size_t at = line_end(text, begin + wanted); at < text.size();) {
    const size_t end = line_end(text, at);
    if (line_content(text.substr(at, end - at)) == *options.separator) return end;
    at = end;
  }
  return text.size();
}

}  // namespace

ChunkReader::ChunkReader(std::vector<std::filesystem::path> files, TextInputOptions options, int64_t chunk_bytes)
    : files_(std::move(files)), options_(std::move(options)), chunk_bytes_(chunk_bytes) {
  for (const auto& file : files_) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    if (error) fail("{}: cannot be read: {}", file.string(), error.message());
    total_bytes_ += static_cast<int64_t>(bytes);
    if (bytes == 0) log::warn("{} is empty", file.string());
  }
}

std::optional<TextChunk> ChunkReader::next() {
  while (!file_ || at_ == file_->text().size()) {
    if (next_file_ == files_.size()) return std::nullopt;
    file_ = std::make_shared<const MappedFile>(files_[next_file_++], MappedFile::Access::sequential);
    at_ = 0;
  }
  const bool json = is_json_lines(file_->path(), options_.format);
  const std::string_view text = file_->text();
  const size_t end = chunk_end(text, at_, static_cast<size_t>(chunk_bytes_), json, options_);
  TextChunk chunk{file_, text.substr(at_, end - at_), static_cast<int64_t>(at_), json};
  at_ = end;
  return chunk;
}

}  // namespace partita
