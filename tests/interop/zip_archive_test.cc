#include "partita/interop/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "tests/interop/zip_writer.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using test::ZipOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<ZipEntry> parse(std::string_view file) { return parse_zip(std::as_bytes(std::span(file)), "folder/x.bin"); }
std::string error_of(std::string_view file) {
  return error_message([&] { (void)parse(file); });
}

const std::vector<test::ZipMember> kMembers = {{"a/data.pkl", "pickle"}, {"a/empty", ""}, {"b", std::string(300, 'x')}};

TEST(ZipArchive, FindsEveryMember) {
  for (const ZipOptions& options :
       {ZipOptions{}, ZipOptions{.wide = true}, ZipOptions{.wide = true, .wide_entries = true},
        ZipOptions{.wide = true, .comment = "a comment PK\5\6 with the signature"}}) {
    const std::string file = test::zip_of(kMembers, options);
    EXPECT_TRUE(is_zip(std::as_bytes(std::span(file))));
    const std::vector<ZipEntry> entries = parse(file);
    ASSERT_EQ(entries.size(), kMembers.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      EXPECT_EQ(entries[i].name, kMembers[i].name);
      EXPECT_EQ(
          file.substr(static_cast<size_t>(entries[i].begin), static_cast<size_t>(entries[i].end - entries[i].begin)),
          kMembers[i].bytes);
    }
  }
  EXPECT_TRUE(parse(test::zip_of({})).empty());
  EXPECT_FALSE(is_zip({}));
}

TEST(ZipArchive, RefusesWhatItCannotMap) {
  EXPECT_THAT(error_of(test::zip_of(kMembers, {.method = 8})),
              AllOf(HasSubstr("folder/x.bin"), HasSubstr("'a/data.pkl' is compressed (method 8)")));
  EXPECT_THAT(error_of(test::zip_of(kMembers, {.flags = 1})), HasSubstr("'a/data.pkl' is encrypted"));
  EXPECT_THAT(error_of(test::zip_of({{"same", "1"}, {"same", "2"}})), HasSubstr("the name 'same' occurs twice"));
  EXPECT_THAT(error_of(""), HasSubstr("it does not end as one"));
  EXPECT_THAT(error_of("PK\3\4"), HasSubstr("it does not end as one"));
}

// The file with `bytes` written over it at the place of the last `signature` plus `offset`.
std::string patched(std::string file, std::string_view signature, size_t offset, std::string_view bytes) {
  const size_t at = file.rfind(signature) + offset;
  return file.replace(at, bytes.size(), bytes);
}

TEST(ZipArchive, RefusesWrongPlaces) {
  const std::string file = test::zip_of(kMembers), wide = test::zip_of(kMembers, {.wide = true});
  const std::string huge = test::little(uint32_t{0x7FFFFFFF}), huge64 = test::little(~uint64_t{0});
  EXPECT_THAT(error_of(patched(file, "PK\5\6", 16, huge)), HasSubstr("the place of its directory is 2147483647"));
  EXPECT_THAT(error_of(patched(file, "PK\5\6", 12, huge)), HasSubstr("the length of its directory is 2147483647"));
  EXPECT_THAT(error_of(patched(file, "PK\5\6", 10, "\xff\x7f")), HasSubstr("cannot hold 32767 entries"));
  EXPECT_THAT(error_of(patched(file, "PK\5\6", 10, test::little(uint16_t{2}))), HasSubstr("of 2 entries ends at byte"));
  EXPECT_THAT(error_of(patched(wide, "PK\6\7", 8, huge64)), HasSubstr("the place of its 64-bit record is 184467"));
  EXPECT_THAT(error_of(patched(wide, "PK\6\7", 8, test::little(uint64_t{0}))), HasSubstr("no 64-bit record at byte 0"));
  EXPECT_THAT(error_of(patched(wide, "PK\6\6", 48, huge64)), HasSubstr("the place of its directory"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 42, huge)), HasSubstr("the place of an entry is 2147483647"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 42, test::little(uint32_t{1}))),
              HasSubstr("'b' has no header at byte 1"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 42, test::little(uint32_t{0}))),
              HasSubstr("the directory's 'b' is another entry at byte 0"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 20, huge + huge)), HasSubstr("the length of 'b' is 2147483647"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 20, huge)), HasSubstr("'b' has 300 bytes and takes 2147483647"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 20, std::string(8, '\xff'))), HasSubstr("'b' has no 64-bit field"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 28, "\xff\xff")), HasSubstr("an entry of its directory needs"));
  EXPECT_THAT(error_of(patched(file, "PK\1\2", 0, "XXXX")), HasSubstr("no entry of its directory at byte"));
}

TEST(ZipArchive, RefusesEveryCut) {
  const std::string file = test::zip_of(kMembers, {.wide = true});
  for (size_t length = 0; length < file.size(); ++length) EXPECT_NE(error_of(file.substr(0, length)), "no error");
}

// Whatever is damaged: no crash, and no entry that leads out of the file.
TEST(ZipArchive, SurvivesRandomDamage) {
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = test::zip_of(kMembers, {.wide = round % 2 == 0, .wide_entries = round % 4 == 0});
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes)
      file[random() % file.size()] = static_cast<char>(random());
    try {
      for (const ZipEntry& entry : parse(file)) {
        ASSERT_LE(0, entry.begin);
        ASSERT_LE(entry.begin, entry.end);
        ASSERT_LE(entry.end, std::ssize(file));
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000);
}

// The check value of CRC-32 (ISO 3309), as in every implementation's tests.
TEST(ZipArchive, ComparesTheChecksum) {
  const std::string bytes = "123456789";
  const auto check = [&](uint32_t crc) {
    return error_message([&] { check_zip_crc(std::as_bytes(std::span(bytes)), crc, "m/data/0", "x.bin"); });
  };
  EXPECT_EQ(check(0xCBF43926), "no error");
  EXPECT_EQ(check(0), "no error");  // none was written
  EXPECT_THAT(check(0xCBF43927),
              testing::HasSubstr("x.bin is damaged: the checksum of 'm/data/0' is cbf43926 instead"));
  const std::string archive = test::zip_of({{"m/data/0", bytes, 0xCBF43926}});
  EXPECT_EQ(parse_zip(std::as_bytes(std::span(archive)), "x").at(0).crc, 0xCBF43926);
}

}  // namespace
}  // namespace partita::internal
