// Token file writer and reader together: golden bytes, round trips, and every kind of damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "partita/base/file.h"
#include "partita/data/indexed_dataset.h"
#include "partita/data/indexed_writer.h"
#include "partita/data/token_sums.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string hex(std::string_view bytes) {
  std::string text;
  for (unsigned char c : bytes) text += fmt::format("{:02x}", c);
  return text;
}

std::vector<int32_t> read_all(const IndexedDataset& dataset, int64_t sequence) {
  std::vector<int32_t> tokens(static_cast<size_t>(dataset.length(sequence)));
  dataset.read(sequence, 0, tokens);
  return tokens;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The checksums are there, and those of the files beside them.
void expect_sums_match(const fs::path& prefix) {
  const auto sums = read_token_sums(prefix);
  ASSERT_TRUE(sums);
  EXPECT_EQ(error_message([&] { verify(*sums, prefix); }), "no error");
}

class Indexed : public testing::Test {
 protected:
  // Three documents of one sequence each, u16.
  void write_golden() {
    IndexedWriter writer(prefix_, TokenType::u16);
    for (const auto& tokens : std::vector<std::vector<int32_t>>{{10, 11, 12, 0}, {13, 0}, {14, 15, 0}}) {
      writer.add_document(tokens);
    }
    EXPECT_EQ(writer.tokens(), 9);
    writer.close();
  }
  // The golden files with `bytes` written over the index at `at`: the reader's message.
  template <class T>
  std::string refusal_of(size_t at, T value) {
    if (golden_index_.empty()) {
      write_golden();
      golden_index_ = read_file(idx_path(prefix_));
    }
    std::string index = golden_index_;
    std::memcpy(index.data() + at, &value, sizeof value);
    overwrite(idx_path(prefix_), index);
    return open_message();
  }
  // In place and without fsync: many of them take no time.
  static void overwrite(const fs::path& path, std::string_view content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }
  std::string open_message() {
    return error_message([&] { IndexedDataset dataset(prefix_); });
  }

  TemporaryDirectory folder_;
  std::string golden_index_;
  fs::path prefix_ = folder_ / "gold.v1";  // dots in the name are no endings
};

TEST_F(Indexed, GoldenBytes) {
  write_golden();
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("gold.v1.bin", "gold.v1.idx", "gold.v1.sums"));
  EXPECT_EQ(hex(read_file(bin_path(prefix_))), "0a000b000c0000000d0000000e000f000000");
  // Of sha256 ceda38882eb135038cd7e13e01ca6fe02e150cad19941b6ca28409df44f616ca.
  EXPECT_EQ(hex(read_file(idx_path(prefix_))),
            "4d4d4944494458000001000000000000000803000000000000000400000000000000"  // header
            "040000000200000003000000"                                              // lengths
            "000000000000000008000000000000000c00000000000000"                      // offsets
            "0000000000000000010000000000000002000000000000000300000000000000");    // document ends
}

TEST_F(Indexed, ReadsWhatWasWritten) {
  write_golden();
  const IndexedDataset dataset(prefix_);
  EXPECT_EQ(dataset.type(), TokenType::u16);
  EXPECT_EQ(dataset.sequences(), 3);
  EXPECT_EQ(dataset.documents(), 3);
  EXPECT_EQ(dataset.tokens(), 9);
  EXPECT_THAT(read_all(dataset, 0), ElementsAre(10, 11, 12, 0));
  EXPECT_THAT(read_all(dataset, 2), ElementsAre(14, 15, 0));
  std::vector<int32_t> part(2);
  dataset.read(0, 1, part);
  EXPECT_THAT(part, ElementsAre(11, 12));
  EXPECT_THAT(error_message([&] { dataset.read(0, 3, part); }), HasSubstr("tokens 3 to 5 of sequence 0"));
  EXPECT_THAT(error_message([&] { dataset.read(3, 0, part); }), HasSubstr("there are 3 sequences"));
  EXPECT_THAT(error_message([&] { dataset.read(0, -1, part); }), HasSubstr("tokens -1 to 1"));
}

TEST_F(Indexed, RandomDocumentsOfSeveralSequencesInEveryType) {
  std::mt19937 random(1);
  for (TokenType type :
       {TokenType::u8, TokenType::i8, TokenType::i16, TokenType::u16, TokenType::i32, TokenType::i64}) {
    const int64_t most = type == TokenType::i8    ? 127
                         : type == TokenType::u8  ? 255
                         : type == TokenType::i16 ? 32767
                         : type == TokenType::u16 ? 65535
                                                  : 2147483647;
    std::vector<std::vector<int32_t>> sequences;
    std::vector<int64_t> begins = {0};
    IndexedWriter writer(prefix_, type);
    for (int document = 0; document < 300; ++document) {
      for (auto n = random() % 4; n > 0; --n) {  // documents of no sequence, sequences of no token
        std::vector<int32_t> tokens(random() % 200);
        for (int32_t& token : tokens) token = static_cast<int32_t>(random() % static_cast<uint64_t>(most + 1));
        writer.add_sequence(tokens);
        sequences.push_back(std::move(tokens));
      }
      writer.end_document();
      begins.push_back(static_cast<int64_t>(sequences.size()));
    }
    writer.close();
    const IndexedDataset dataset(prefix_);
    ASSERT_EQ(dataset.type(), type);
    ASSERT_EQ(dataset.sequences(), static_cast<int64_t>(sequences.size()));
    for (size_t s = 0; s < sequences.size(); ++s) ASSERT_EQ(read_all(dataset, static_cast<int64_t>(s)), sequences[s]);
    for (size_t d = 0; d < begins.size(); ++d) ASSERT_EQ(dataset.document_begin(static_cast<int64_t>(d)), begins[d]);
  }
}

TEST_F(Indexed, MoreSequencesThanAnyBufferHolds) {
  IndexedWriter writer(prefix_, TokenType::i32);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 50'000; ++i) {
    tokens.assign(static_cast<size_t>(i % 13), i);
    writer.add_document(tokens);
  }
  writer.close();
  const IndexedDataset dataset(prefix_);
  for (int32_t i = 0; i < 50'000; i += 7) {
    ASSERT_EQ(read_all(dataset, i), std::vector<int32_t>(static_cast<size_t>(i % 13), i));
  }
}

TEST_F(Indexed, NothingAppearsWithoutClose) {
  {
    IndexedWriter writer(prefix_, TokenType::u16);
    writer.add_document(std::vector<int32_t>(2'000'000, 7));
  }
  EXPECT_THAT(names_in(folder_.path()), ElementsAre());
  write_golden();
  try {
    IndexedWriter writer(prefix_, TokenType::u16);
    writer.add_document(std::vector<int32_t>{1, 65536});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a token of sequence 0 does not fit in u16"));
  }
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("gold.v1.bin", "gold.v1.idx", "gold.v1.sums"));
  EXPECT_EQ(IndexedDataset(prefix_).tokens(), 9);  // the older files are as they were
  expect_sums_match(prefix_);
  IndexedWriter negative(prefix_, TokenType::u16);
  EXPECT_THAT(error_message([&] { negative.add_sequence(std::vector<int32_t>{-1}); }), HasSubstr("does not fit"));
  EXPECT_THAT(error_message([&] { IndexedWriter writer(folder_ / "no" / "such", TokenType::u16); }),
              HasSubstr("no/such"));
}

// What fails before the files get their names leaves an older dataset as it was: a disk that fills while the first of
// two writers that belong together is finished.
TEST(IndexedWriters, AFailureKeepsTheOlderFiles) {
  const TemporaryDirectory folder;
  const auto write = [&](const char* name, int64_t documents) {
    IndexedWriter writer(folder / name, TokenType::u16);
    for (int64_t d = 0; d < documents; ++d) writer.add_document(std::vector<int32_t>{1, 2, 3});
    return writer;
  };
  for (const char* name : {"a", "b"}) write(name, 2).close();
  const std::string index = read_file(folder / "a.idx");
  {
    IndexedWriter a = write("a", 5), b = write("b", 100'000);
    a.finish();
    const FileSizeLimit limit(1 << 16);
    EXPECT_THAT(error_message([&] { b.finish(); }), HasSubstr("b."));
  }
  EXPECT_EQ(read_file(folder / "a.idx"), index);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(IndexedDataset(folder / name).documents(), 2);
    expect_sums_match(folder / name);
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.bin", "a.idx", "a.sums", "b.bin", "b.idx", "b.sums"));
}

TEST_F(Indexed, TokenTypeByVocabulary) {
  EXPECT_EQ(token_type_for(50257), TokenType::u16);
  EXPECT_EQ(token_type_for(65499), TokenType::u16);
  EXPECT_EQ(token_type_for(65500), TokenType::i32);  // Megatron's border
}

TEST_F(Indexed, EveryFieldIsChecked) {
  const std::string name = idx_path(prefix_).string();
  const auto says = [&name](const char* what) { return AllOf(HasSubstr(name), HasSubstr(what)); };
  for (size_t at = 0; at < 9; ++at) EXPECT_THAT(refusal_of(at, 'x'), says("does not begin with MMIDIDX"));
  EXPECT_THAT(refusal_of(0, std::array{'T', 'N', 'T', 'I', 'D', 'X'}), says("fairseq's old index format"));
  EXPECT_THAT(refusal_of(9, int64_t{2}), says("version 1 expected, found 2"));
  for (int code : {0, 6, 7, 9, 255}) {
    EXPECT_THAT(refusal_of(17, static_cast<uint8_t>(code)), says(fmt::format("found code {}", code).c_str()));
  }
  // The type is believed, and then the offsets are not what the lengths make.
  for (uint8_t code : {1, 2, 4, 5}) EXPECT_THAT(refusal_of(17, code), says("sequence 1 begins at byte 8"));
  for (int64_t sequences : {int64_t{0}, int64_t{2}, int64_t{4}, int64_t{1} << 62, int64_t{-1}}) {
    EXPECT_THAT(refusal_of(18, sequences), says(" file "));
  }
  for (int64_t documents : {int64_t{0}, int64_t{3}, int64_t{5}, int64_t{1} << 61, int64_t{-1}}) {
    EXPECT_THAT(refusal_of(26, documents), says(documents == 0 ? "at least 1" : " file "));
  }
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_THAT(refusal_of(34 + 4 * s, int32_t{-1}), says("has the length -1"));
    for (int32_t length : {0, 1, 5, 1 << 30}) EXPECT_THAT(refusal_of(34 + 4 * s, length), HasSubstr("expected"));
    for (int64_t offset : {-1, 1, 4, 1 << 30}) {
      EXPECT_THAT(refusal_of(46 + 8 * s, offset),
                  says(fmt::format("sequence {} begins at byte {}", s, offset).c_str()));
    }
  }
  EXPECT_THAT(refusal_of(70, int64_t{1}), says("documents begin at sequence 1, 0 expected"));
  EXPECT_THAT(refusal_of(78, int64_t{-1}), says("document 0 ends at sequence -1, before it begins (0)"));
  EXPECT_THAT(refusal_of(78, int64_t{3}), says("document 1 ends at sequence 2, before it begins (3)"));
  EXPECT_THAT(refusal_of(86, int64_t{4}), says("document 2 ends at sequence 3, before it begins (4)"));
  EXPECT_THAT(refusal_of(94, int64_t{2}), says("documents end at sequence 2, 3 expected"));
  EXPECT_THAT(refusal_of(94, int64_t{4}), says("documents end at sequence 4, 3 expected"));
}

TEST_F(Indexed, FilesOfTheWrongSize) {
  write_golden();
  const std::string bin = read_file(bin_path(prefix_)), index = read_file(idx_path(prefix_));
  write_file(bin_path(prefix_), bin.substr(0, 10));
  EXPECT_THAT(open_message(), AllOf(HasSubstr("gold.v1.bin: 18 bytes expected"), HasSubstr("has 10: cut short")));
  write_file(bin_path(prefix_), bin + "xx");
  EXPECT_THAT(open_message(), HasSubstr("has 20: not the file of this index"));
  write_file(bin_path(prefix_), bin);
  for (size_t size = 0; size < index.size(); ++size) {
    overwrite(idx_path(prefix_), index.substr(0, size));
    EXPECT_THAT(open_message(), AllOf(HasSubstr("gold.v1.idx: "), HasSubstr("cut short"))) << size;
  }
  write_file(idx_path(prefix_), index + std::string(3, '\0'));
  EXPECT_THAT(open_message(), HasSubstr("multimodal indices (with modes) are not supported"));
  fs::remove(bin_path(prefix_));
  EXPECT_THAT(open_message(), HasSubstr("gold.v1.bin does not exist"));
  prefix_ += ".bin";
  EXPECT_THAT(open_message(), HasSubstr("give the path without its ending"));
}

TEST_F(Indexed, DatasetsArePutTogether) {
  std::mt19937 random(31);
  std::vector<std::vector<int32_t>> sequences;
  std::vector<int64_t> begins = {0};
  IndexedWriter merged(folder_ / "merged", TokenType::u16);
  for (int part = 0; part < 5; ++part) {
    const fs::path prefix = folder_ / fmt::format("part{}", part);
    IndexedWriter writer(prefix, TokenType::u16);
    for (auto documents = part == 2 ? 0 : random() % 40; documents > 0; --documents) {  // one part is empty
      for (auto n = random() % 4; n > 0; --n) {
        std::vector<int32_t> tokens(random() % 5000);
        for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 65536);
        writer.add_sequence(tokens);
        sequences.push_back(std::move(tokens));
      }
      writer.end_document();
      begins.push_back(static_cast<int64_t>(sequences.size()));
    }
    writer.close();
    merged.add_dataset(IndexedDataset(prefix));
  }
  merged.add_document(std::vector<int32_t>{7});  // documents may follow
  merged.close();
  sequences.push_back({7});
  begins.push_back(static_cast<int64_t>(sequences.size()));
  const IndexedDataset dataset(folder_ / "merged");
  ASSERT_EQ(dataset.sequences(), static_cast<int64_t>(sequences.size()));
  ASSERT_EQ(dataset.documents(), static_cast<int64_t>(begins.size()) - 1);
  for (size_t s = 0; s < sequences.size(); ++s) ASSERT_EQ(read_all(dataset, static_cast<int64_t>(s)), sequences[s]);
  for (size_t d = 0; d < begins.size(); ++d) ASSERT_EQ(dataset.document_begin(static_cast<int64_t>(d)), begins[d]);
  IndexedWriter wide(folder_ / "wide", TokenType::i32);
  EXPECT_THAT(error_message([&] { wide.add_dataset(dataset); }), HasSubstr("merged has tokens of u16, i32 expected"));
}

// Beyond 2^31 tokens and 2^32 bytes, in a file with holes.
TEST_F(Indexed, OffsetsBeyond32Bits) {
  const std::vector<int32_t> lengths = {2'000'000'000, 1'500'000'000, 3};
  const IndexHeader header{TokenType::u16, 3, 2};
  std::string index(format_header(header).data(), IndexHeader::kBytes);
  const auto append = [&index](auto value) { index.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const int32_t length : lengths) append(length);
  for (const int64_t offset : {int64_t{0}, int64_t{4'000'000'000}, int64_t{7'000'000'000}}) append(offset);
  for (const int64_t end : {int64_t{0}, int64_t{2}, int64_t{3}}) append(end);
  overwrite(idx_path(prefix_), index);
  {
    std::ofstream bin(bin_path(prefix_), std::ios::binary);
    bin.seekp(7'000'000'000 - 2);
    bin << std::string_view("\x05\x00\x06\x00\x07\x00\x08\x00", 8);
  }
  const IndexedDataset dataset(prefix_);
  EXPECT_EQ(dataset.tokens(), 3'500'000'003);
  EXPECT_THAT(read_all(dataset, 2), ElementsAre(6, 7, 8));
  std::vector<int32_t> last(2);
  dataset.read(1, 1'499'999'998, last);
  EXPECT_THAT(last, ElementsAre(0, 5));
}

TEST_F(Indexed, WhatAKilledWriterLeftIsRemoved) {
  const fs::path other = folder_ / "gold.v1.bin.x-0.tmp", abandoned = folder_ / "gold.v1.bin.4194399-0.tmp";
  for (const fs::path& path : {other, abandoned}) overwrite(path, "half");
  IndexedWriter first(prefix_, TokenType::u16);
  first.add_document(std::vector<int32_t>{1, 2});
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(other));                 // no writer's name
  IndexedWriter second(prefix_, TokenType::u16);  // does not take what a living one writes
  second.add_document(std::vector<int32_t>{3});
  second.finish();
  IndexedWriter third(prefix_, TokenType::u16);
  first.close();
  EXPECT_EQ(IndexedDataset(prefix_).tokens(), 2);
  second.publish();
  EXPECT_EQ(IndexedDataset(prefix_).tokens(), 1);
}

// Two runs of one prefix: while one publishes, which is what the lock says, the other changes neither file.
TEST_F(Indexed, WritersPublishOneAfterTheOther) {
  write_golden();
  const std::string bin = read_file(bin_path(prefix_)), index = read_file(idx_path(prefix_));
  const std::string sums = read_file(sums_path(prefix_));
  IndexedWriter writer(prefix_, TokenType::u16);
  writer.add_document(std::vector<int32_t>{1});
  writer.finish();
  auto other = std::make_unique<FileLock>(prefix_.string() + ".lock");
  ASSERT_TRUE(other->held());
  {
    const std::jthread publishing([&] { writer.publish(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(read_file(bin_path(prefix_)) == bin);
    EXPECT_TRUE(fs::exists(idx_path(prefix_)) && read_file(idx_path(prefix_)) == index);
    EXPECT_TRUE(fs::exists(sums_path(prefix_)) && read_file(sums_path(prefix_)) == sums);
    other.reset();
  }
  EXPECT_THAT(read_all(IndexedDataset(prefix_), 0), ElementsAre(1));
  expect_sums_match(prefix_);
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("gold.v1.bin", "gold.v1.idx", "gold.v1.sums"));
}

TEST_F(Indexed, AnEmptyDatasetIsADataset) {
  IndexedWriter(prefix_, TokenType::u16).close();
  EXPECT_EQ(IndexedDataset(prefix_).tokens(), 0);
  EXPECT_EQ(IndexedDataset(prefix_).documents(), 0);
}

}  // namespace
}  // namespace partita::internal
