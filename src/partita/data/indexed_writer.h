// Writes PREFIX.bin and PREFIX.idx (indexed_format.h), document by document, in constant memory, and their checksums,
// PREFIX.sums (token_sums.h).
//
//   IndexedWriter writer("data/text", token_type_for(tokenizer->vocab_size()));
//   for (const auto& ids : documents) writer.add_document(ids);
//   writer.close();
//
// The files appear under their names only in close(), the index last: what carries the names is whole, and without an
// index there is no dataset. A writer destroyed without close() leaves nothing behind; what a killed one leaves, the
// next of the same prefix removes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "partita/base/file.h"
#include "partita/data/indexed_dataset.h"
#include "partita/data/indexed_format.h"
#include "partita/data/token_sums.h"
#include "partita/text/spill_file.h"

namespace partita {

class IndexedWriter {
 public:
  // Error: the folder does not exist or cannot be written.
  IndexedWriter(std::filesystem::path prefix, TokenType type);
  // For the checksums: which tokenizer the tokens are of.
  void set_tokenizer(const Tokenizer& tokenizer);

  // A document of one sequence, as text makes them. Error: a token that the type cannot hold, more than 2^31-1 tokens,
  // a full disk.
  void add_document(std::span<const int32_t> tokens);
  // A document of several sequences: add_sequence each, then end_document.
  void add_sequence(std::span<const int32_t> tokens);
  void end_document();
  // All documents of another dataset, whose checksums are checked on the way if it has any. Error: another type of
  // token; a byte that has changed.
  void add_dataset(const IndexedDataset& dataset);

  // finish and publish.
  void close();
  // Checks that lengths and bytes agree and makes the files durable under temporary names: what takes long and may
  // fail. Several writers whose files belong together all finish before the first publishes.
  void finish();
  // After finish: gives the files their names, in place of older ones. Writers of one prefix do it one after the other:
  // the files that stay are the last one's.
  void publish();

  [[nodiscard]] const std::filesystem::path& prefix() const { return prefix_; }
  [[nodiscard]] int64_t sequences() const { return sequences_; }
  [[nodiscard]] int64_t documents() const { return documents_; }
  [[nodiscard]] int64_t tokens() const { return tokens_; }

 private:
  void flush();
  void put(std::span<const std::byte> tokens);

  std::filesystem::path prefix_;
  TokenType type_;
  internal::AtomicFile bin_;
  std::optional<internal::AtomicFile> index_, sums_file_;  // from finish() on
  internal::TokenSums sums_;
  internal::BlockSums block_sums_;
  bool first_dataset_ = true;
  std::vector<std::byte> buffer_;      // tokens on their way to the .bin
  internal::SpillFile lengths_;        // i32 a sequence
  internal::SpillFile document_ends_;  // i64 a document
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
};

}  // namespace partita
