// PREFIX.sums, next to PREFIX.bin and PREFIX.idx: checksums of both and information about their tokens. It is specific
// to Partita; other programs that read the token files can ignore it.
//
//   partita-sums 1
//   bin 8388608                                   bytes
//   idx 1258 9c0b7e4a...                          bytes and checksum
//   vocabulary 50257 77fd1c02...                  size and fingerprint of the tokenizer; 0 and -: unknown
//   largest 50256                                 largest id in the .bin; -1: no tokens
//   block 4194304                                 block size; one checksum per 4 MiB block of the .bin follows:
//   1f0e33aa...
//   5b9c21d0...
//   end 0d2f6c1e...                               checksum of all of the above
//
// Checksums are XXH3 (128 bits).
//
//   if (const auto sums = read_token_sums("data/text_document")) verify(*sums, "data/text_document");
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/data/indexed_format.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct TokenSums {
  static constexpr int64_t kBlock = int64_t{1} << 22;
  static constexpr std::string_view kUnknown = "-";

  int64_t bin_bytes = 0, index_bytes = 0;
  std::string index;  // checksum
  int64_t vocabulary = 0;
  std::string fingerprint{kUnknown};
  int64_t largest = -1;
  std::vector<std::string> blocks;

  bool operator==(const TokenSums&) const = default;
};

[[nodiscard]] std::filesystem::path sums_path(const std::filesystem::path& prefix);
[[nodiscard]] std::string format(const TokenSums& sums);
// Error: truncated, damaged, another version.
[[nodiscard]] TokenSums parse_token_sums(std::string_view text, std::string_view origin);
// Empty: the file does not exist.
[[nodiscard]] std::optional<TokenSums> read_token_sums(const std::filesystem::path& prefix);

// Whether the sums belong to this index: false after another program has rewritten the files.
[[nodiscard]] bool same_index(const TokenSums& sums, std::span<const std::byte> index);

// Reads the whole .idx and this part of the .bin's blocks, which ranks divide among themselves. Error: names the file
// and the bytes that differ.
void verify(const TokenSums& sums, const std::filesystem::path& prefix, int part = 0, int parts = 1);

// Hash of a tokenizer's vocabulary: equal if all ids have equal tokens.
[[nodiscard]] std::string fingerprint(const Tokenizer& tokenizer);

// Incremental checksum.
class RunningSum {
 public:
  RunningSum();
  RunningSum(RunningSum&&) noexcept;
  RunningSum& operator=(RunningSum&&) noexcept;
  ~RunningSum();
  void add(std::span<const std::byte> bytes);
  // The checksum of everything added since the last call.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Incremental checksums per block.
class BlockSums {
 public:
  void add(std::span<const std::byte> bytes);
  // Includes the last, partial block.
  [[nodiscard]] std::vector<std::string> finish();

 private:
  RunningSum sum_;
  int64_t in_block_ = 0;
  std::vector<std::string> blocks_;
};

// The largest of the stored tokens; -1: none, or all are negative.
[[nodiscard]] int64_t largest_token(TokenType type, std::span<const std::byte> tokens);

}  // namespace partita::internal
