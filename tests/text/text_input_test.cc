// From input files to documents: patterns, chunking and parsing, with chunks of every size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <future>
#include <limits>
#include <random>
#include <thread>

#include "partita/base/file.h"
#include "partita/text/chunk_parser.h"
#include "partita/text/text_chunks.h"
#include "partita/text/text_input.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/compressed.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TextInput : public testing::Test {
 protected:
  // Then what is wrong, with line and byte in the file.
  std::vector<std::string> documents(const std::string& name, const TextInputOptions& options, int64_t chunk_bytes) {
    ChunkReader reader({folder_ / name}, options, chunk_bytes);
    ChunkParser parser(options);
    std::vector<std::string> found, problems;
    int64_t lines = 0, at = 0, input_bytes = 0;
    while (const auto chunk = reader.next()) {
      EXPECT_EQ(chunk->first_byte, at);
      EXPECT_GT(chunk->text.size() + static_cast<size_t>(chunk->skipped_bytes), 0U);
      at += static_cast<int64_t>(chunk->text.size()) + chunk->skipped_bytes;
      input_bytes += chunk->input_bytes;
      const ChunkSummary summary =
          parser.parse(*chunk, false, [&](size_t, std::string_view text) { found.emplace_back(text); });
      for (const TextProblem& problem : summary.problems) {
        problems.push_back(fmt::format("! line {} byte {}", lines + problem.line + 1, problem.byte));
      }
      lines += summary.lines;
    }
    if (at > 0) {
      EXPECT_EQ(input_bytes, reader.total_bytes());
    }
    found.insert(found.end(), problems.begin(), problems.end());
    return found;
  }

  void expect_documents(const std::string& content, const TextInputOptions& options,
                        const std::vector<std::string>& expected, const std::string& name = "f.txt") {
    write_file(folder_ / name, content);
    write_file(folder_ / (name + ".gz"),
               gzip(content.substr(0, content.size() / 2)) + gzip(content.substr(content.size() / 2)));
    write_file(folder_ / (name + ".zst"), zstd(content));
    for (int64_t chunk_bytes : {1, 2, 3, 5, 8, 13, 1000}) {
      for (const char* ending : {"", ".gz", ".zst"}) {
        EXPECT_EQ(documents(name + ending, options, chunk_bytes), expected) << ending << ", chunks of " << chunk_bytes;
      }
    }
  }

  TemporaryDirectory folder_;
};

TEST_F(TextInput, AFileIsADocumentByteForByte) {
  expect_documents("one\n\ntwo\r\n three", {}, {"one\n\ntwo\r\n three"});
  expect_documents("\n", {}, {"\n"});
  expect_documents("", {}, {});
}

TEST_F(TextInput, ASeparatorLineEndsADocument) {
  expect_documents("a\nb\n---\nc\n---\n", {.separator = "---"}, {"a\nb\n", "c\n"});
  expect_documents("a\n----\n ---\n---x\nb", {.separator = "---"}, {"a\n----\n ---\n---x\nb"});
  expect_documents("---\na\n---\n---\r\nb\n", {.separator = "---"}, {"", "a\n", "", "b\n"});
  expect_documents("v 1\nv 2\n\nv 3\n\n\nv 4", {.separator = ""}, {"v 1\nv 2\n", "v 3\n", "", "v 4"});
  expect_documents("---", {.separator = "---"}, {""});
}

TEST_F(TextInput, JsonLines) {
  const std::string content =
      "\xEF\xBB\xBF{\"text\": \"a\"}\n\n  \r\n{\"text\": 1}\r\n{\"text\": \"b\"}\n{\"text\": \"c\xFF\"}\n{\"text\": "
      "\"\"}";
  expect_documents(content, {}, {"a", "b", "", "! line 4 byte 22", "! line 6 byte 60"}, "f.jsonl");
}

TEST_F(TextInput, InvalidUtf8InText) {
  const std::string content = "ok\n--\nab\ncd\xFF\n--\nok\n";
  TextInputOptions options{.separator = "--"};
  expect_documents(content, options, {"ok\n", "ok\n", "! line 4 byte 11"});
  options.invalid_utf8 = InvalidUtf8::replace;
  expect_documents(content, options, {"ok\n", "ab\ncd\uFFFD\n", "ok\n"});
  options.invalid_utf8 = InvalidUtf8::keep;
  expect_documents(content, options, {"ok\n", "ab\ncd\xFF\n", "ok\n"});
}

// A text file without a separator is one document. A plain file is mapped: any length is read, unless a limit is given.
TEST(TextLimits, HoldForWhatIsKeptInMemory) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const TextInputOptions standard;
  EXPECT_EQ(standard.max_bytes(/*json=*/false, /*mapped=*/true), kAny);
  EXPECT_EQ(standard.max_bytes(false, /*mapped=*/false), int64_t{1} << 30);
  const TextInputOptions given{.max_line_bytes = 5, .max_document_bytes = 20};
  for (const bool mapped : {false, true}) {
    EXPECT_EQ(standard.max_bytes(/*json=*/true, mapped), int64_t{128} << 20);
    EXPECT_EQ(given.max_bytes(true, mapped), 5);
    EXPECT_EQ(given.max_bytes(false, mapped), 20);
  }
}

// Documents that are too long are left out, those around them are not, in every size of chunk and compressed or not.
TEST_F(TextInput, WhatIsTooLongIsLeftOut) {
  const auto line = [](size_t bytes) { return "{\"text\": \"" + std::string(bytes - 13, 'x') + "\"}\n"; };
  TextInputOptions json{.format = TextFormat::json_lines, .max_line_bytes = 50};
  const std::string text(37, 'x');
  expect_documents(line(50) + line(51) + line(50), json, {text, text, "! line 2 byte 50"});
  expect_documents(line(3000) + line(20) + line(700) + "\n" + line(2000) + line(21), json,
                   {"xxxxxxx", "xxxxxxxx", "! line 1 byte 0", "! line 3 byte 3020", "! line 5 byte 3721"});
  expect_documents(line(20) + std::string(1000, 'y'), json, {"xxxxxxx", "! line 2 byte 20"});
  // A problem after it is in the right place.
  expect_documents(line(20) + line(300) + "no\n" + line(20), json,
                   {"xxxxxxx", "xxxxxxx", "! line 2 byte 20", "! line 3 byte 320"});

  TextInputOptions whole{.max_document_bytes = 20};
  expect_documents(std::string(20, 'a'), whole, {std::string(20, 'a')});
  expect_documents(std::string(21, 'a'), whole, {"! line 1 byte 0"});
  TextInputOptions parts{.separator = "---", .max_document_bytes = 20};
  const std::string nine = "12345678\n";
  expect_documents(nine + "---\n" + nine + nine + nine + "----\n---\n" + nine + "---\n\xFF\n---\n", parts,
                   {nine, nine, "! line 3 byte 13", "! line 10 byte 62"});
  expect_documents(nine + nine + "---\n" + nine + "---\n" + nine + nine + nine, parts,
                   {nine + nine, nine, "! line 6 byte 35"});
}

// A line of 256 MiB in a few kilobytes of zstd or gzip: memory stays that of the limit.
TEST_F(TextInput, ABombTakesNoMemory) {
  const std::string good = "{\"text\": \"good\"}\n";
  const std::string plain(size_t{16} << 20, '\0');
  const std::string frame = zstd(plain), member = gzip(plain);
  std::string frames = zstd(good), members = gzip(good);
  for (int i = 0; i < 16; ++i) {
    frames += frame;
    members += member;
  }
  write_file(folder_ / "b.jsonl.zst", frames + zstd("\n" + good));
  write_file(folder_ / "b.jsonl.gz", members + gzip("\n" + good));
  const auto memory_peak = [] {
    const std::string status = read_file("/proc/self/status");
    return std::stoll(status.substr(status.find("VmHWM:") + 6)) << 10;
  };
  for (const char* name : {"b.jsonl.zst", "b.jsonl.gz"}) {
    const long long before = memory_peak();
    TextInputOptions options{.max_line_bytes = int64_t{8} << 20};
    EXPECT_THAT(documents(name, options, 1 << 20), ElementsAre("good", "good", "! line 2 byte 17")) << name;
    EXPECT_LT(memory_peak() - before, 128LL << 20) << name;
  }
}

TEST_F(TextInput, OtherFormatsAreNamed) {
  const auto refusal = [&](const std::string& name, const std::string& content) {
    write_file(folder_ / name, content);
    return error_message([&] { (void)documents(name, {}, 1000); });
  };
  EXPECT_THAT(refusal("a.parquet", "PAR1\x15\x04\x15"), HasSubstr("a.parquet is an Apache Parquet file"));
  EXPECT_THAT(refusal("a.jsonl", "PK\x03\x04 and text"), HasSubstr("a.jsonl is a zip archive"));
  EXPECT_THAT(refusal("a.txt", "version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  // Also where it is compressed.
  EXPECT_THAT(refusal("a.tar.gz", gzip(std::string(257, 'x') + "ustar  ")), HasSubstr("a.tar.gz is a tar archive"));
  EXPECT_THAT(refusal("a.zst", zstd("%PDF-1.4\n")), HasSubstr("a.zst is a PDF document"));
}

TEST_F(TextInput, ParsingStopsAtAProblemWhenAskedTo) {
  write_file(folder_ / "f.jsonl", "{\"text\": \"a\"}\nx\n{\"text\": \"b\"}\ny\n");
  ChunkReader reader({folder_ / "f.jsonl"}, {});
  ChunkParser parser(TextInputOptions{});
  std::vector<std::string> found;
  const auto summary =
      parser.parse(*reader.next(), true, [&](size_t, std::string_view text) { found.emplace_back(text); });
  EXPECT_THAT(found, ElementsAre("a"));
  ASSERT_EQ(summary.problems.size(), 1U);
  EXPECT_EQ(summary.problems[0].line, 1);
}

TEST_F(TextInput, PatternsFindFilesInOrder) {
  for (const char* name : {"b.jsonl", "a.jsonl", "c.txt", "[x].txt", "d.json.gz"}) write_file(folder_ / name, "x");
  const auto at = [&](const char* name) { return (folder_ / name).string(); };
  EXPECT_THAT(expand_inputs({at("*.jsonl"), at("c.txt")}), ElementsAre(at("a.jsonl"), at("b.jsonl"), at("c.txt")));
  EXPECT_THAT(expand_inputs({at("[x].txt")}), ElementsAre(at("[x].txt")));
  EXPECT_THAT(error_message([&] { return expand_inputs({at("*.csv")}); }), HasSubstr("*.csv: no such input file"));
  EXPECT_THAT(expand_inputs({at("c.txt"), at("c*"), at("./c.txt")}), ElementsAre(at("c.txt")));  // once, and warned
  EXPECT_THAT(expand_inputs({"-", at("*.gz")}), ElementsAre("-", at("d.json.gz")));
  EXPECT_THAT(error_message([&] { return expand_inputs({"-", "-"}); }), HasSubstr("standard input is read once"));
  EXPECT_THAT(error_message([&] { return expand_inputs({folder_.path().string()}); }), HasSubstr("a folder"));
  EXPECT_TRUE(is_json_lines("x.jsonl", TextFormat::automatic));
  EXPECT_FALSE(is_json_lines("x.txt", TextFormat::automatic));
  EXPECT_TRUE(is_json_lines("x.txt", TextFormat::json_lines));
  EXPECT_FALSE(is_json_lines("x.json", TextFormat::text));
  EXPECT_TRUE(is_json_lines("x.jsonl.gz", TextFormat::automatic));
  EXPECT_TRUE(is_json_lines("x.json.zst", TextFormat::automatic));
  EXPECT_FALSE(is_json_lines("jsonl.gz", TextFormat::automatic));
  EXPECT_TRUE(is_json_lines("-", TextFormat::automatic));
}

// One program writes to two pipes, one after the other: the second is opened when the first has ended.
TEST_F(TextInput, PipesAreOpenedInTheirTurn) {
  const std::vector<fs::path> pipes = {folder_ / "a.jsonl", folder_ / "b.jsonl"};
  for (const fs::path& path : pipes) ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
  write_file(folder_ / "c.jsonl.gz", gzip("{\"text\": \"c\"}\n"));
  std::promise<void> first_read;
  std::jthread writer([&] {
    std::ofstream(pipes[0]) << "{\"text\": \"a\"}\n";
    first_read.get_future().wait();
    std::ofstream(pipes[1]) << "{\"text\": \"b\"}\n";
  });
  ChunkReader reader({pipes[0], pipes[1], folder_ / "c.jsonl.gz"}, {});
  EXPECT_FALSE(reader.total_bytes());
  EXPECT_EQ(reader.next()->text, "{\"text\": \"a\"}\n");
  first_read.set_value();
  EXPECT_EQ(reader.next()->text, "{\"text\": \"b\"}\n");
  EXPECT_EQ(reader.next()->text, "{\"text\": \"c\"}\n");
  EXPECT_FALSE(reader.next());
}

// More files than are read ahead, of all kinds, with documents longer than a block.
TEST_F(TextInput, ManyFilesKeepTheirOrder) {
  std::vector<fs::path> files;
  std::vector<std::string> expected;
  std::mt19937 random(12);
  for (int f = 0; f < 17; ++f) {
    std::string content;
    for (auto n = 1 + random() % 5; n > 0; --n) {
      const size_t length = random() % 7 == 0 ? 2'500'000 : random() % 3000;
      expected.push_back(fmt::format("{}{}", f, std::string(length, 'x')));
      content += fmt::format("{{\"text\": \"{}\"}}\n", expected.back());
    }
    files.push_back(folder_ / fmt::format("{}.jsonl{}", f, f % 3 == 1 ? ".gz" : f % 3 == 2 ? ".zst" : ""));
    write_file(files.back(), f % 3 == 1 ? gzip(content) : f % 3 == 2 ? zstd(content) : content);
  }
  ChunkReader reader(files, {});
  ChunkParser parser(TextInputOptions{});
  std::vector<std::string> found;
  int64_t input_bytes = 0;
  while (const auto chunk = reader.next()) {
    (void)parser.parse(*chunk, true, [&](size_t, std::string_view text) { found.emplace_back(text); });
    input_bytes += chunk->input_bytes;
  }
  EXPECT_TRUE(found == expected);
  EXPECT_EQ(input_bytes, reader.total_bytes());
}

TEST_F(TextInput, NamesThatSayCompressedAreBelieved) {
  write_file(folder_ / "a.jsonl.gz", "{\"text\": \"a\"}\n");
  EXPECT_THAT(error_message([&] { ChunkReader({folder_ / "a.jsonl.gz"}, {}); }),
              HasSubstr("the name promises gzip or zstd data"));
  write_file(folder_ / "b.jsonl", gzip("{\"text\": \"a\"}\n"));  // but content without a name is found
  EXPECT_EQ(documents("b.jsonl", {}, 100), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace partita::internal
