#include "partita/text/text_chunks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/text/byte_source.h"
#include "partita/text/text_lines.h"

namespace partita::internal {
namespace fs = std::filesystem;
namespace {

// Finds the end of a chunk in a text that may still grow: the first document end at least `wanted` bytes away.
class EndFinder {
 public:
  EndFinder(bool json, const TextInputOptions& options, size_t wanted)
      : json_(json), separator_(options.separator), wanted_(wanted) {}

  // Offset after the document's end; empty: not in the text so far. Resumes where the last call stopped searching.
  [[nodiscard]] std::optional<size_t> find(std::string_view text) {
    if (text.size() <= wanted_) return std::nullopt;
    if (json_) return find_line(text, std::max(at_, wanted_));
    if (!separator_) return std::nullopt;
    // Separators are whole lines: start at the beginning of a line.
    if (at_ == 0) {
      const auto begin = find_line(text, wanted_);
      if (!begin) return std::nullopt;
      at_ = *begin;
    }
    while (const auto end = find_line(text, at_)) {
      const std::string_view line = text.substr(at_, *end - at_);
      if (line_content(line) == *separator_) return end;
      at_ = *end;
      searched_ = 0;
    }
    return std::nullopt;
  }
  // Start of the document that contains or ends at the wanted number of bytes.
  [[nodiscard]] size_t last_document(std::string_view text) const {
    const std::string_view before = text.substr(0, wanted_);
    if (json_) {
      const size_t newline = before.rfind('\n');
      return newline == std::string_view::npos ? 0 : newline + 1;
    }
    if (!separator_) return 0;
    size_t begin = 0;
    for (size_t at = 0; at < before.size();) {
      const size_t end = line_end(text, at);
      if (text[end - 1] != '\n') break;
      if (line_content(text.substr(at, end - at)) == *separator_) begin = end;
      at = end;
    }
    return begin;
  }
  // The next chunk begins where the last one ended.
  void restart() { at_ = searched_ = 0; }

 private:
  // Offset after the first '\n' at or after `from`.
  std::optional<size_t> find_line(std::string_view text, size_t from) {
    const size_t newline = text.find('\n', std::max(from, searched_));
    searched_ = newline == std::string_view::npos ? text.size() : 0;
    if (newline == std::string_view::npos) return std::nullopt;
    return newline + 1;
  }

  bool json_;
  const std::optional<std::string>& separator_;
  size_t wanted_;
  size_t at_ = 0;        // start of the current line
  size_t searched_ = 0;  // there is no '\n' from `at_` to here
};

// Limit for a document with its terminator; the parser handles slightly longer ones.
size_t most_bytes(bool json, bool mapped, const TextInputOptions& options) {
  constexpr size_t kLineEnd = 2;
  const size_t separator = !json && options.separator ? options.separator->size() + kLineEnd : 0;
  return static_cast<size_t>(options.max_bytes(json, mapped)) + separator;
}

// Finds the end of a dropped document, block by block.
class SkippedDocument {
 public:
  SkippedDocument(bool json, const TextInputOptions& options) : json_(json), separator_(options.separator) {}

  // Removes the document's bytes from the front of `text`; returns true if it ends there.
  bool skip(std::string& text) {
    size_t at = 0;
    bool ended = false;
    while (!ended && at < text.size()) {
      const size_t end = line_end(text, at);
      take(std::string_view(text).substr(at, end - at));
      const bool line_ended = text[end - 1] == '\n';
      if (line_ended) {
        ++lines_;
        ended = json_ || (separator_ && line_content(line_) == *separator_);
        line_.clear();
      }
      at = end;
    }
    bytes_ += static_cast<int64_t>(at);
    text.erase(0, at);
    return ended;
  }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  // Line ends in it, plus the last line if the file ends without one.
  [[nodiscard]] int64_t lines(bool at_end_of_file) const { return lines_ + (at_end_of_file ? 1 : 0); }

 private:
  // Keeps only as much of a line as is needed to recognize the separator.
  void take(std::string_view piece) {
    if (json_ || !separator_) return;
    line_ += piece.substr(0, separator_->size() + 3 - std::min(line_.size(), separator_->size() + 3));
    if (piece.ends_with('\n') && !line_.ends_with('\n')) line_ += '\n';
  }

  bool json_;
  const std::optional<std::string>& separator_;
  std::string line_;
  int64_t bytes_ = 0, lines_ = 0;
};

// A piece of a mapped file. Its pages leave the process's memory with it (but stay in the page cache), so resident
// memory is limited to the chunks in flight, whatever the file size.
class MappedPiece {
 public:
  MappedPiece(std::shared_ptr<const MappedFile> file, std::string_view text) : file_(std::move(file)), text_(text) {}
  MappedPiece(const MappedPiece&) = delete;
  MappedPiece& operator=(const MappedPiece&) = delete;
  ~MappedPiece() {
    static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(text_.data()) / page * page;
    const auto end = reinterpret_cast<uintptr_t>(text_.data() + text_.size()) / page * page;
    if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::string_view text_;
};

class MappedChunks : public FileChunks {
 public:
  MappedChunks(const fs::path& path, const TextInputOptions& options, size_t chunk_bytes)
      : file_(std::make_shared<const MappedFile>(path, MappedFile::Access::sequential)),
        json_(is_json_lines(path, options.format)),
        most_(most_bytes(json_, /*mapped=*/true, options)),
        finder_(json_, options, chunk_bytes) {}

  std::optional<TextChunk> next() override {
    const std::string_view rest = file_->text().substr(at_);
    if (rest.empty()) return std::nullopt;
    const size_t size = finder_.find(rest).value_or(rest.size());
    finder_.restart();
    const std::string_view all = rest.substr(0, size);
    const size_t last = size > most_ ? finder_.last_document(all) : size;
    const std::string_view text = size - last > most_ ? all.substr(0, last) : all;
    TextChunk chunk{file_->path().string(),
                    std::make_shared<const MappedPiece>(file_, text),
                    text,
                    static_cast<int64_t>(at_),
                    static_cast<int64_t>(size),
                    json_,
                    /*mapped=*/true};
    if (text.size() < size) {
      const std::string_view skipped = all.substr(last);
      chunk.skipped_bytes = static_cast<int64_t>(skipped.size());
      chunk.skipped_lines = std::ranges::count(skipped, '\n') + (skipped.ends_with('\n') ? 0 : 1);
    }
    at_ += size;
    return chunk;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  bool json_;
  size_t most_;  // limit for a document and its terminator
  EndFinder finder_;
  size_t at_ = 0;
};

class StreamedChunks : public FileChunks {
 public:
  StreamedChunks(const fs::path& path, std::unique_ptr<ReadAhead> ahead, const TextInputOptions& options,
                 size_t chunk_bytes)
      : name_(input_name(path)),
        ahead_(std::move(ahead)),
        options_(options),
        json_(is_json_lines(path, options.format)),
        most_(most_bytes(json_, /*mapped=*/false, options)),
        finder_(json_, options, chunk_bytes) {}

  std::optional<TextChunk> next() override {
    for (;;) {
      const auto end = finder_.find(text_);
      const size_t size = end.value_or(text_.size());
      if (size > most_) {
        if (const size_t last = finder_.last_document(text_); size - last > most_) return cut_and_skip(last);
      }
      if (end) return cut(*end);
      if (!read_more()) break;
    }
    if (text_.empty()) return std::nullopt;
    return cut(text_.size());
  }

 private:
  bool read_more() {
    auto block = ahead_->next();
    if (!block) return false;
    if (!begun_) refuse_foreign_format(block->bytes, name_);  // in the decompressed content
    begun_ = true;
    consumed_ = block->consumed;
    if (text_.empty())
      text_ = std::move(block->bytes);
    else
      text_ += block->bytes;
    return true;
  }

  // Cuts the chunk before byte `size`; the document that starts there is dropped.
  TextChunk cut_and_skip(size_t size) {
    TextChunk chunk = cut(size);
    SkippedDocument skipped(json_, options_);
    bool ended = false;
    while (!(ended = skipped.skip(text_)) && read_more()) continue;
    chunk.skipped_bytes = skipped.bytes();
    chunk.skipped_lines = skipped.lines(!ended);
    chunk.input_bytes += consumed_ - counted_;
    counted_ = consumed_;
    first_byte_ += skipped.bytes();
    return chunk;
  }

  TextChunk cut(size_t size) {
    std::string rest = text_.substr(size);
    text_.resize(size);
    const auto owner = std::make_shared<const std::string>(std::exchange(text_, std::move(rest)));
    finder_.restart();
    TextChunk chunk{name_, owner, *owner, first_byte_, consumed_ - counted_, json_};
    first_byte_ += static_cast<int64_t>(size);
    counted_ = consumed_;
    return chunk;
  }

  std::string name_;
  std::unique_ptr<ReadAhead> ahead_;
  TextInputOptions options_;
  bool json_;
  size_t most_;  // limit for a document and its terminator
  EndFinder finder_;
  bool begun_ = false;
  std::string text_;  // read but not yet returned
  int64_t first_byte_ = 0, consumed_ = 0, counted_ = 0;
};

}  // namespace

ChunkReader::ChunkReader(std::vector<fs::path> files, TextInputOptions options, int64_t chunk_bytes)
    : options_(std::move(options)), chunk_bytes_(static_cast<size_t>(chunk_bytes)) {
  for (const auto& file : files) {
    std::error_code error;
    const auto status = is_standard_input(file) ? fs::file_status(fs::file_type::fifo) : fs::status(file, error);
    if (error || !fs::exists(status)) fail("{}: cannot be read: {}", file.string(), error.message());
    if (!fs::is_regular_file(status)) {
      total_bytes_.reset();
      waiting_.push_back({file, Kind::pipe, nullptr});
      continue;
    }
    const auto bytes = fs::file_size(file, error);
    if (error) fail("{}: cannot be read: {}", file.string(), error.message());
    if (total_bytes_) *total_bytes_ += static_cast<int64_t>(bytes);
    if (bytes == 0) log::warn("{} is empty", file.string());
    const bool compressed = compression_of(file) != Compression::none;
    if (!compressed && compression_named(file))
      fail("{}: the name promises gzip or zstd data, but it holds neither: damaged, or misnamed", file.string());
    waiting_.push_back({file, compressed ? Kind::compressed : Kind::plain, nullptr});
  }
}

std::unique_ptr<FileChunks> ChunkReader::open_next() {
  size_t begun = 0;
  for (Waiting& file : waiting_) {
    if (begun == kFilesAhead) break;
    if (file.kind != Kind::compressed) continue;
    if (!file.ahead) file.ahead = std::make_unique<ReadAhead>(open_bytes(file.file));
    ++begun;
  }
  Waiting file = std::move(waiting_.front());
  waiting_.pop_front();
  if (file.kind == Kind::pipe) file.ahead = std::make_unique<ReadAhead>(open_bytes(file.file));
  if (file.ahead) return std::make_unique<StreamedChunks>(file.file, std::move(file.ahead), options_, chunk_bytes_);
  return std::make_unique<MappedChunks>(file.file, options_, chunk_bytes_);
}

std::optional<TextChunk> ChunkReader::next() {
  for (;;) {
    if (current_) {
      if (auto chunk = current_->next()) return chunk;
      current_.reset();
    }
    if (waiting_.empty()) return std::nullopt;
    current_ = open_next();
  }
}

}  // namespace partita::internal
