#include "partita/base/foreign_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string name_of(const std::string& head) {
  const auto found = foreign_format(head);
  return found ? std::string(found->name) : "text";
}

TEST(ForeignFormat, IsNamedByItsFirstBytes) {
  EXPECT_EQ(name_of("PAR1\x15\x04"), "an Apache Parquet file");
  EXPECT_EQ(name_of("ARROW1\0\0"s), "an Apache Arrow (Feather) file");
  EXPECT_THAT(name_of("\xFF\xFF\xFF\xFF\x10\0\0\0"s), HasSubstr("Arrow stream"));
  EXPECT_EQ(name_of("PK\x03\x04\x14"), "a zip archive");
  EXPECT_EQ(name_of("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5\n"),
            "a Git LFS pointer, not the file itself");
  EXPECT_EQ(name_of("BZh91AY"), "compressed by bzip2");
  EXPECT_EQ(name_of("\xFD\x37zXZ\0"s), "compressed by xz");
  EXPECT_EQ(name_of("7z\xBC\xAF\x27\x1C"), "a 7z archive");
  EXPECT_EQ(name_of(std::string(257, 'a') + "ustar\0"s), "a tar archive");
  EXPECT_EQ(name_of("SQLite format 3\0"s), "an SQLite database");
  EXPECT_EQ(name_of("\x89HDF\r\n\x1A\n"), "an HDF5 file");
  EXPECT_EQ(name_of("%PDF-1.7"), "a PDF document");
  EXPECT_EQ(name_of("\x80\x04\x95\x10"), "a pickle of Python");
  EXPECT_EQ(name_of("\xFF\xFEh\0i\0"s), "UTF-16 text");
}

TEST(ForeignFormat, TextIsNone) {
  for (const std::string& text :
       {""s, "P"s, "PAR"s, "PARENTAL GUIDANCE"s, "PAR1 is a gene"s, "PK"s, "BZ"s, "BZhello"s, "{\"text\": 1}"s,
        "version 2 of it"s, "\xEF\xBB\xBFhi"s, "\x80"s, "ARROW1 points"s, "\x80\x02"s, std::string(600, '\0'),
        "ustar is a word"s, "GGUF is a format"s, "LZIP"s})
    EXPECT_EQ(name_of(text), "text") << text;
}

TEST(ForeignFormat, SaysWhatToDoWithTheFile) {
  EXPECT_EQ(describe(*foreign_format("BZh9"), "a b.bz2", "text"),
            "a b.bz2 is compressed by bzip2; expected text. Use: bzcat 'a b.bz2' | partita ... --input -");
  EXPECT_EQ(describe(*foreign_format("GGUF\x03\0"s), "m", "JSON"), "m is a GGUF model; expected JSON");
  EXPECT_EQ(describe(*foreign_format("Rar!\x1A\x07"), "m.rar", "text"),
            "m.rar is a RAR archive; expected text. Extract the text first");
  EXPECT_EQ(describe(*foreign_format("BZh9"), "standard input", "text", "FILE"),
            "standard input is compressed by bzip2; expected text. Use: bzcat FILE | partita ... --input -");
  // A name that holds the word is put in once.
  EXPECT_EQ(describe(*foreign_format("BZh9"), "FILE", "text"),
            "FILE is compressed by bzip2; expected text. Use: bzcat FILE | partita ... --input -");
}

TEST(ForeignFormat, AGitLfsPointerIsRefusedInThePlaceOfAnyFile) {
  const auto refusal = [](std::string_view head) {
    return error_message([&] { refuse_lfs_pointer(head, "m.bin", "a model"); });
  };
  EXPECT_EQ(
      refusal("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"),
      "m.bin is a Git LFS pointer, not the file itself; expected a model. Run 'git lfs install && git lfs pull' in "
      "its repository, or download the file again");
  for (const char* head : {"", "version", "PK\x03\x04", "\xFF\xFE"}) EXPECT_EQ(refusal(head), "no error") << head;
}

TEST(ForeignFormat, NamesOfFilesAreQuotedForTheShell) {
  EXPECT_EQ(shell_word("data/a-1_b.txt"), "data/a-1_b.txt");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_word("-x"), "./-x");
  EXPECT_EQ(shell_word("~"), "'~'");
  EXPECT_EQ(shell_word(""), "''");
  // What a terminal must not show as it is, so that the hint can still be pasted.
  EXPECT_EQ(shell_word("a\nb"), "$'a\\nb'");
  EXPECT_EQ(shell_word("it's\x1b[2J\\\xff"), "$'it\\'s\\x1b[2J\\\\\\xff'");
}

}  // namespace
}  // namespace partita::internal
