// Writes PREFIX.bin and PREFIX.idx (indexed_format.h) document by document in constant memory, and their checksums,
// PREFIX.sums (token_sums.h).
//
//   IndexedWriter writer("data/text", token_type_for(tokenizer->vocab_size()));
//   for (const auto& ids : documents) writer.add_document(ids);
//   writer.close();
//
// The files get their names only in close(), the index last, so named files are complete and there is no dataset
// without an index. A writer destroyed without close() leaves nothing behind; files left by a killed one are removed by
// the next writer of the same prefix.
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
  // Records in the checksum file which tokenizer the tokens come from.
  void set_tokenizer(const Tokenizer& tokenizer);

  // Adds a document of one sequence, the usual case. Error: a token that the type cannot hold, more than 2^31-1 tokens,
  // a full disk.
  void add_document(std::span<const int32_t> tokens);
  // Adds a document of several sequences: call add_sequence for each, then end_document.
  void add_sequence(std::span<const int32_t> tokens);
  void end_document();
  // Adds all documents of another dataset, verifying its checksums if it has any. Error: another token type; a changed
  // byte.
  void add_dataset(const IndexedDataset& dataset);

  // Calls finish, then publish.
  void close();
  // Checks that lengths and bytes agree and makes the files durable under temporary names: the part that takes long and
  // may fail. If several writers' files belong together, finish them all before publishing the first.
  void finish();
  // After finish: renames the files, replacing older ones. Writers of the same prefix publish one at a time; the last
  // one's files stay.
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
  std::optional<internal::AtomicFile> index_, sums_file_;  // set by finish()
  internal::TokenSums sums_;
  internal::BlockSums block_sums_;
  bool first_dataset_ = true;
  std::vector<std::byte> buffer_;      // tokens to be written to the .bin
  internal::SpillFile lengths_;        // i32 per sequence
  internal::SpillFile document_ends_;  // i64 per document
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
};

}  // namespace partita
