// Megatron-LM's token files, PREFIX.bin and PREFIX.idx, byte by byte (megatron/core/datasets/indexed_dataset.py).
//
// PREFIX.bin: the tokens of all sequences, concatenated. PREFIX.idx, little-endian, unaligned:
//   byte 0         9 bytes  "MMIDIDX\0\0"
//        9         u64      version, 1
//        17        u8       code of the token type
//        18        u64      S, sequences
//        26        u64      D, documents + 1
//        34        i32 x S  tokens of each sequence
//        34 +  4S  i64 x S  byte offset of each in the .bin
//        34 + 12S  i64 x D  0, then for each document the index of the sequence after its last one
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace partita {

enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };  // codes used in the .idx

[[nodiscard]] int64_t size_of(TokenType);           // bytes per token
[[nodiscard]] std::string_view name_of(TokenType);  // "u16"

// The type Megatron's writer uses for a vocabulary: u16 below 65500, else i32.
[[nodiscard]] constexpr TokenType token_type_for(int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

// PREFIX.bin and PREFIX.idx; PREFIX may contain dots.
[[nodiscard]] std::filesystem::path bin_path(const std::filesystem::path& prefix);
[[nodiscard]] std::filesystem::path idx_path(const std::filesystem::path& prefix);

struct IndexHeader {
  static constexpr int64_t kBytes = 34;

  TokenType type = TokenType::u16;
  int64_t sequences = 0;
  int64_t documents = 0;

  [[nodiscard]] int64_t lengths_at() const { return kBytes; }
  [[nodiscard]] int64_t offsets_at() const { return kBytes + 4 * sequences; }
  [[nodiscard]] int64_t document_ends_at() const { return kBytes + 12 * sequences; }  // of the leading 0
  [[nodiscard]] int64_t file_bytes() const { return document_ends_at() + 8 * (documents + 1); }

  bool operator==(const IndexHeader&) const = default;
};

[[nodiscard]] std::array<char, IndexHeader::kBytes> format_header(const IndexHeader& header);

// Error: names the field and what was expected and found; `origin` is the file name.
[[nodiscard]] IndexHeader parse_header(std::string_view file, std::string_view origin);

// Checks every length, offset and document end of an index with this header; returns its total number of tokens. Error:
// likewise.
[[nodiscard]] int64_t check_index(const IndexHeader& header, std::string_view file, std::string_view origin);

}  // namespace partita
