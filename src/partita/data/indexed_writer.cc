#include "partita/data/indexed_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/log.h"

namespace partita {
using namespace internal;
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

std::filesystem::path folder_of(const std::filesystem::path& prefix) {
  return prefix.has_parent_path() ? prefix.parent_path() : std::filesystem::path(".");
}

// Appends the tokens as T; returns false if T cannot represent one of them.
template <class T>
bool append_as(std::span<const int32_t> tokens, std::vector<std::byte>& out) {
  const size_t begin = out.size();
  out.resize(begin + tokens.size() * sizeof(T));
  std::byte* to = out.data() + begin;
  bool fits = true;  // checked after the loop, to keep it branch-free
  for (int32_t token : tokens) {
    const T value = static_cast<T>(token);
    fits &= static_cast<int64_t>(value) == token;
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  }
  return fits;
}

bool append(TokenType type, std::span<const int32_t> tokens, std::vector<std::byte>& out) {
  switch (type) {
    case TokenType::u8:
      return append_as<uint8_t>(tokens, out);
    case TokenType::i8:
      return append_as<int8_t>(tokens, out);
    case TokenType::i16:
      return append_as<int16_t>(tokens, out);
    case TokenType::i32:
      return append_as<int32_t>(tokens, out);
    case TokenType::i64:
      return append_as<int64_t>(tokens, out);
    case TokenType::u16:
      return append_as<uint16_t>(tokens, out);
  }
  return false;
}

}  // namespace

IndexedWriter::IndexedWriter(std::filesystem::path prefix, TokenType type)
    : prefix_(std::move(prefix)),
      type_(type),
      bin_(bin_path(prefix_)),
      lengths_(folder_of(prefix_)),
      document_ends_(folder_of(prefix_)) {
  const int removed =
      remove_abandoned(bin_path(prefix_)) + remove_abandoned(idx_path(prefix_)) + remove_abandoned(sums_path(prefix_));
  if (removed > 0)
    log::info("removed {} temporary file{} of {} that a killed run left", removed, removed == 1 ? "" : "s",
              prefix_.string());
}

void IndexedWriter::set_tokenizer(const Tokenizer& tokenizer) {
  sums_.vocabulary = tokenizer.vocab_size();
  sums_.fingerprint = fingerprint(tokenizer);
}

void IndexedWriter::add_document(std::span<const int32_t> tokens) {
  add_sequence(tokens);
  end_document();
}

void IndexedWriter::add_sequence(std::span<const int32_t> tokens) {
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    fail("{}: a sequence of {} tokens, at most {} expected: cut the document", bin_path(prefix_).string(),
         tokens.size(), std::numeric_limits<int32_t>::max());
  }
  if (!append(type_, tokens, buffer_)) {
    fail("{}: a token of sequence {} does not fit in {}", bin_path(prefix_).string(), sequences_, name_of(type_));
  }
  lengths_.append(static_cast<int32_t>(tokens.size()));
  ++sequences_;
  tokens_ += static_cast<int64_t>(tokens.size());
  if (buffer_.size() >= kFlushBytes) flush();
}

void IndexedWriter::end_document() {
  document_ends_.append(sequences_);
  ++documents_;
}

void IndexedWriter::add_dataset(const IndexedDataset& dataset) {
  if (dataset.type() != type_) {
    fail("{} has tokens of {}, {} expected: tokenize both with the same tokenizer", dataset.prefix().string(),
         name_of(dataset.type()), name_of(type_));
  }
  flush();
  for (int64_t s = 0; s < dataset.sequences(); ++s) lengths_.append(static_cast<int32_t>(dataset.length(s)));
  for (int64_t d = 0; d < dataset.documents(); ++d) document_ends_.append(sequences_ + dataset.document_begin(d + 1));
  const auto sums = read_token_sums(dataset.prefix());
  if (sums) verify(*sums, dataset.prefix());
  if (first_dataset_ && sums) {
    sums_.vocabulary = sums->vocabulary;
    sums_.fingerprint = sums->fingerprint;
  } else if (!first_dataset_ && (!sums || sums->fingerprint != sums_.fingerprint)) {
    if (sums && sums_.vocabulary > 0 && sums->vocabulary > 0)
      log::warn("{} was made with another tokenizer than the parts before it", dataset.prefix().string());
    sums_.vocabulary = 0;
    sums_.fingerprint = std::string(TokenSums::kUnknown);
  }
  first_dataset_ = false;
  const MappedFile tokens(bin_path(dataset.prefix()),
                          MappedFile::Access::sequential);  // with readahead, unlike the dataset's mapping
  for (auto rest = tokens.bytes(); !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), kFlushBytes));
    put(piece);
    rest = rest.subspan(piece.size());
  }
  sequences_ += dataset.sequences();
  documents_ += dataset.documents();
  tokens_ += dataset.tokens();
}

void IndexedWriter::flush() {
  put(buffer_);
  buffer_.clear();
}

void IndexedWriter::put(std::span<const std::byte> tokens) {
  block_sums_.add(tokens);
  sums_.largest = std::max(sums_.largest, largest_token(type_, tokens));
  bin_.write(tokens);
}

void IndexedWriter::finish() {
  flush();
  if (bin_.size() != tokens_ * size_of(type_)) {
    fail("{}: {} tokens of {} bytes expected, {} bytes written", bin_path(prefix_).string(), tokens_, size_of(type_),
         bin_.size());
  }
  AtomicFile index(idx_path(prefix_));
  RunningSum index_sum;
  const auto write = [&](std::span<const std::byte> bytes) {
    index_sum.add(bytes);
    index.write(bytes);
  };
  const IndexHeader header{type_, sequences_, documents_};
  const std::array<char, IndexHeader::kBytes> head = format_header(header);
  write(std::as_bytes(std::span(head)));
  lengths_.read_back(write);
  int64_t begin = 0;  // byte offset of the sequence in the .bin
  std::vector<int64_t> begins;
  lengths_.read_back([&](std::span<const std::byte> lengths) {
    begins.clear();
    for (size_t at = 0; at < lengths.size(); at += sizeof(int32_t)) {
      int32_t length;
      std::memcpy(&length, lengths.data() + at, sizeof length);
      begins.push_back(begin);
      begin += length * size_of(type_);
    }
    write(std::as_bytes(std::span(begins)));
  });
  const int64_t zero = 0;
  write(std::as_bytes(std::span(&zero, 1)));
  document_ends_.read_back(write);
  if (begin != bin_.size() || index.size() != header.file_bytes()) {
    fail("{}: the index expects {} bytes of tokens, {} were written; {} bytes of index expected, {} written",
         idx_path(prefix_).string(), begin, bin_.size(), header.file_bytes(), index.size());
  }
  sums_.bin_bytes = bin_.size();
  sums_.index_bytes = index.size();
  sums_.index = index_sum.finish();
  sums_.blocks = block_sums_.finish();
  AtomicFile sums(sums_path(prefix_));
  sums.write(format(sums_));
  bin_.sync();
  index.sync();
  sums.sync();
  index_.emplace(std::move(index));
  sums_file_.emplace(std::move(sums));
}

void IndexedWriter::publish() {
  PARTITA_CHECK(index_.has_value(), "{} is published before finish()", prefix_.string());
  std::filesystem::path lock_path = prefix_;
  lock_path += ".lock";
  const FileLock lock(lock_path);  // two runs with the same prefix must not mix their files
  // An index next to another run's tokens would be worse than none.
  std::error_code error;
  for (const auto& path : {idx_path(prefix_), sums_path(prefix_)}) {
    std::filesystem::remove(path, error);
    if (error) fail("{} cannot be replaced: {}", path.string(), error.message());
  }
  bin_.publish();
  sums_file_->publish();
  index_->publish();
}

void IndexedWriter::close() {
  finish();
  publish();
}

}  // namespace partita
