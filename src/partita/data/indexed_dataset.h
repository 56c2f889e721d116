// Reads PREFIX.bin and PREFIX.idx (indexed_format.h) memory-mapped: opening uses no memory, reading copies once.
//
//   const IndexedDataset dataset("data/text_document");
//   std::vector<int32_t> ids(static_cast<size_t>(dataset.length(3)));
//   dataset.read(3, 0, ids);                         // all of sequence 3
//
// Sequences hold the tokens; documents are ranges of sequences (one each, if text was tokenized whole).
#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>

#include "partita/base/file.h"
#include "partita/data/indexed_format.h"

namespace partita {

class IndexedDataset {
 public:
  // Error: a missing, truncated or damaged file; names the file, the field, and what was expected and found. Checks
  // every length, offset and document end.
  explicit IndexedDataset(const std::filesystem::path& prefix);

  [[nodiscard]] const std::filesystem::path& prefix() const { return prefix_; }
  [[nodiscard]] TokenType type() const { return header_.type; }
  [[nodiscard]] int64_t sequences() const { return header_.sequences; }
  [[nodiscard]] int64_t documents() const { return header_.documents; }
  [[nodiscard]] int64_t tokens() const { return tokens_; }

  // Number of tokens in a sequence.
  [[nodiscard]] int64_t length(int64_t sequence) const { return load<int32_t>(header_.lengths_at() + 4 * sequence); }
  // The sequences of document d are document_begin(d) .. document_begin(d + 1) - 1.
  [[nodiscard]] int64_t document_begin(int64_t document) const {
    return load<int64_t>(header_.document_ends_at() + 8 * document);
  }
  // The bytes of PREFIX.idx, which describes everything but the tokens themselves.
  [[nodiscard]] std::span<const std::byte> index_bytes() const { return index_.bytes(); }
  // Copies tokens begin .. begin + out.size() - 1 of a sequence. Error: outside the sequence; a token that is negative
  // or exceeds int32: -1 would be taken for an ignored label.
  void read(int64_t sequence, int64_t begin, std::span<int32_t> out) const;

 private:
  // The arrays of the index are unaligned, because its header has 34 bytes.
  template <class T>
  [[nodiscard]] T load(int64_t at) const {
    T value;
    std::memcpy(&value, index_.bytes().data() + at, sizeof value);
    return value;
  }

  std::filesystem::path prefix_;
  internal::MappedFile index_, bin_;
  IndexHeader header_;
  int64_t tokens_ = 0;
};

}  // namespace partita
