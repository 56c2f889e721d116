// Checksums of token files: contents, detection of flipped bytes, merging.
#include "partita/data/token_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "partita/base/file.h"
#include "partita/data/indexed_writer.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TokenSumsTest : public testing::Test {
 protected:
  // Documents of 1000 tokens, i % 5000; two blocks and a half for the default.
  fs::path write(const char* name, int64_t documents = 5200, TokenType type = TokenType::u16) {
    IndexedWriter writer(folder_ / name, type);
    std::vector<int32_t> ids(1000);
    for (int64_t d = 0; d < documents; ++d) {
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((static_cast<size_t>(d) * 7 + i) % 5000);
      writer.add_document(ids);
    }
    writer.close();
    return folder_ / name;
  }
  static void flip(const fs::path& path, size_t at) {
    std::string bytes = read_file(path);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file(path, bytes);
  }
  static std::string problem(const fs::path& prefix, int part = 0, int parts = 1) {
    return error_message([&] { verify(read_token_sums(prefix).value(), prefix, part, parts); });
  }
  TemporaryDirectory folder_;
};

TEST_F(TokenSumsTest, AreWrittenWithTheFiles) {
  const fs::path prefix = write("a");
  const TokenSums sums = read_token_sums(prefix).value();
  EXPECT_EQ(sums.bin_bytes, 10'400'000);
  EXPECT_EQ(sums.blocks.size(), 3U);
  EXPECT_EQ(sums.largest, 4999);
  EXPECT_EQ(sums.vocabulary, 0);
  EXPECT_EQ(problem(prefix), "no error");
  EXPECT_EQ(parse_token_sums(format(sums), "x"), sums);
  EXPECT_FALSE(read_token_sums(folder_ / "none"));
  // The checksum of bytes is the one that xxhsum -H2 gives: of nothing, XXH3's value for the empty input.
  RunningSum sum;
  EXPECT_EQ(sum.finish(), "99aa06d3014798d86001c324468d497f");
}

TEST_F(TokenSumsTest, EveryFlippedByteIsFound) {
  const fs::path prefix = write("a");
  std::mt19937_64 random(3);
  for (int i = 0; i < 8; ++i) {
    const size_t at = random() % 10'400'000;
    flip(bin_path(prefix), at);
    const size_t block = at / static_cast<size_t>(TokenSums::kBlock);
    EXPECT_THAT(problem(prefix), AllOf(HasSubstr("a.bin: bytes " + std::to_string(block << 22) + " to "),
                                       HasSubstr("do not have their checksum of a.sums")));
    // Of three ranks the one that has the block finds it, and no other.
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(problem(prefix, rank, 3) == "no error", rank != static_cast<int>(block)) << rank;
    flip(bin_path(prefix), at);
  }
  flip(idx_path(prefix), 40);
  EXPECT_THAT(problem(prefix), HasSubstr("a.idx does not have its checksum"));
  flip(idx_path(prefix), 40);
  fs::resize_file(bin_path(prefix), 10'399'998);
  EXPECT_THAT(problem(prefix), HasSubstr("10400000 bytes expected, found 10399998"));
}

TEST_F(TokenSumsTest, DamagedSumsAreRefused) {
  const std::string text = format(read_token_sums(write("a", 30)).value());
  const auto refusal = [](const std::string& changed) {
    return error_message([&] { (void)parse_token_sums(changed, "a.sums"); });
  };
  for (size_t size = 0; size < text.size(); ++size) EXPECT_NE(refusal(text.substr(0, size)), "no error") << size;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_THAT(refusal(changed), HasSubstr("a.sums")) << at;
  }
  EXPECT_NE(refusal(text + "\n"), "no error");
  EXPECT_THAT(refusal("partita-sums 2\n"), HasSubstr("later version"));
  EXPECT_NE(refusal("partita-sums 1\nbin 9000000000000000000\nidx 1 " + std::string(32, 'a') +
                    "\nvocabulary 0 -\nlargest 1\nblock 4194304\n"),
            "no error");
}

TEST_F(TokenSumsTest, MergingChecksAndCombines) {
  const fs::path a = write("a", 2300), b = write("b", 40);
  {
    IndexedWriter writer(folder_ / "m", TokenType::u16);
    for (const auto& prefix : {a, b, a}) writer.add_dataset(IndexedDataset(prefix));
    writer.close();
  }
  EXPECT_EQ(problem(folder_ / "m"), "no error");
  // As if the documents had been written at once.
  {
    IndexedWriter writer(folder_ / "n", TokenType::u16);
    std::vector<int32_t> ids(1000);
    for (const auto& prefix : {a, b, a}) {
      const IndexedDataset dataset(prefix);
      for (int64_t s = 0; s < dataset.sequences(); ++s) {
        dataset.read(s, 0, ids);
        writer.add_document(ids);
      }
    }
    writer.close();
  }
  EXPECT_EQ(read_file(sums_path(folder_ / "m")), read_file(sums_path(folder_ / "n")));
  flip(bin_path(b), 77);
  IndexedWriter writer(folder_ / "o", TokenType::u16);
  EXPECT_THAT(error_message([&] { writer.add_dataset(IndexedDataset(b)); }), HasSubstr("b.bin: bytes 0 to 79999"));
}

TEST_F(TokenSumsTest, AFullDiskLeavesNoneOfTheFiles) {
  const fs::path prefix = write("a", 30);
  const std::string before = read_file(bin_path(prefix)) + read_file(idx_path(prefix)) + read_file(sums_path(prefix));
  for (const rlim_t limit : {100, 5000, 59'999}) {
    const FileSizeLimit full(limit);
    EXPECT_NE(error_message([&] { write("a", 30); }), "no error") << limit;
  }
  EXPECT_EQ(read_file(bin_path(prefix)) + read_file(idx_path(prefix)) + read_file(sums_path(prefix)), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 3);
}

// -1 would be a label that does not count: also as the very last token, which is nobody's input.
TEST_F(TokenSumsTest, NegativeTokensAreRefusedWhereTheyAreRead) {
  IndexedWriter writer(folder_ / "n", TokenType::i32);
  writer.add_document(std::vector<int32_t>{5, 6, 7});
  writer.add_document(std::vector<int32_t>{8, -1});
  writer.close();
  const IndexedDataset dataset(folder_ / "n");
  std::vector<int32_t> ids(2);
  dataset.read(0, 1, ids);
  EXPECT_THAT(ids, testing::ElementsAre(6, 7));
  EXPECT_THAT(error_message([&] { dataset.read(1, 0, ids); }), HasSubstr("sequence 1 holds a token that is negative"));
  dataset.read(1, 0, std::span(ids).first(1));
}

TEST_F(TokenSumsTest, FingerprintsTellTokenizersApart) {
  const auto one = load_tokenizer(PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json");
  const auto two = load_tokenizer(PARTITA_SOURCE_DIR "/tests/golden/sentencepiece/bpe_bytes.model");
  EXPECT_EQ(fingerprint(*one), fingerprint(*load_tokenizer(PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json")));
  EXPECT_NE(fingerprint(*one), fingerprint(*two));
  IndexedWriter writer(folder_ / "t", TokenType::u16);
  writer.set_tokenizer(*one);
  writer.add_document(std::vector<int32_t>{1, 2});
  writer.close();
  EXPECT_EQ(read_token_sums(folder_ / "t")->vocabulary, one->vocab_size());
  EXPECT_EQ(read_token_sums(folder_ / "t")->fingerprint, fingerprint(*one));
}

TEST_F(TokenSumsTest, TheLargestTokenOfEachType) {
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  EXPECT_EQ(largest_token(TokenType::u8, bytes(std::vector<uint8_t>{3, 255, 0})), 255);
  EXPECT_EQ(largest_token(TokenType::i8, bytes(std::vector<int8_t>{-3, -1})), -1);
  EXPECT_EQ(largest_token(TokenType::i16, bytes(std::vector<int16_t>{-3, 32767})), 32767);
  EXPECT_EQ(largest_token(TokenType::u16, bytes(std::vector<uint16_t>{65535, 2})), 65535);
  EXPECT_EQ(largest_token(TokenType::i32, bytes(std::vector<int32_t>{5, 2'000'000'000})), 2'000'000'000);
  EXPECT_EQ(largest_token(TokenType::i64, bytes(std::vector<int64_t>{int64_t{1} << 40})), int64_t{1} << 40);
  EXPECT_EQ(largest_token(TokenType::u16, {}), -1);
}

}  // namespace
}  // namespace partita::internal
