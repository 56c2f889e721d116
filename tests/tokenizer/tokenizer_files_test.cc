#include "partita/tokenizer/formats/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "partita/base/file.h"
#include "partita/tokenizer/tokenizer.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  fs::path write(const fs::path& name, std::string_view text) {
    fs::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  TemporaryDirectory folder_;
  const std::string sentencepiece_{"\x0A\x0E\x0A\x05<unk>\x15\x00\x00\x00\x00\x18\x02\x0A\x0A\x0A\x03<s>", 23};
};

TEST_F(Files, ContentTellsTheFormat) {
  EXPECT_EQ(find_tokenizer_files(write("a/tokenizer.json", "{\"version\": 1}")).format, TokenizerFormat::json);
  EXPECT_EQ(find_tokenizer_files(write("a/other.json", "{}")).format, TokenizerFormat::json);
  EXPECT_EQ(find_tokenizer_files(write("b/tokenizer.model", sentencepiece_)).format, TokenizerFormat::sentencepiece);
  EXPECT_EQ(find_tokenizer_files(write("c/tokenizer.model", "IQ== 0\nIg== 1\n")).format, TokenizerFormat::tiktoken);
  EXPECT_EQ(find_tokenizer_files(folder_ / "missing").format, TokenizerFormat::json);
  const TokenizerFiles pair = find_tokenizer_files(folder_ / "d/vocab.json");
  EXPECT_EQ(pair.format, TokenizerFormat::gpt2);
  EXPECT_EQ(pair.merges, folder_ / "d/merges.txt");
}

TEST_F(Files, FoldersHoldThemUnderKnownNames) {
  EXPECT_EQ(find_tokenizer(folder_.path()), std::nullopt);
  EXPECT_THAT(error_message([&] { (void)find_tokenizer_files(folder_.path()); }),
              HasSubstr("or one file *.tiktoken, expected in this folder"));
  const fs::path ranks = write("llama3.tiktoken", "IQ== 0\n");
  EXPECT_EQ(find_tokenizer(folder_.path()), ranks);
  const fs::path second = write("qwen.tiktoken", "IQ== 0\n");
  EXPECT_EQ(find_tokenizer(folder_.path()), std::nullopt);
  for (const char* name : {"vocab.json", "tokenizer.model", "tokenizer.json"}) {
    const fs::path file = write(name, "{}");
    EXPECT_EQ(find_tokenizer(folder_.path()), file);  // goes before those that stand there already
  }
  EXPECT_EQ(find_tokenizer(folder_ / "missing"), std::nullopt);
}

TEST_F(Files, OnlyRegularFilesOfItsKindAreRead) {
  const auto refusal = [&](const fs::path& path) { return error_message([&] { (void)load_tokenizer(path); }); };
  EXPECT_THAT(
      refusal("gpt2"),
      AllOf(HasSubstr("gpt2 does not exist: expected the file or folder of a tokenizer. Names of the Hugging Face "
                      "hub are not fetched"),
            HasSubstr("hf download gpt2")));
  ASSERT_EQ(::mkfifo((folder_ / "pipe.json").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder_ / "pipe.json"), HasSubstr("pipe.json is not a regular file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("/dev/zero is not a regular file"));
  EXPECT_THAT(refusal(write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")),
              HasSubstr("tokenizer.json is a Git LFS pointer, not the file itself; expected a tokenizer"));
  const fs::path large = write("large.json", "{}");
  fs::resize_file(large, uintmax_t{3} << 30);  // sparse
  EXPECT_THAT(refusal(large), HasSubstr("no tokenizer has more than"));
  // A vocabulary that is nested: shown in an error without following it down.
  write("vocab.json", "{\"a\": " + std::string(200'000, '[') + std::string(200'000, ']') + "}");
  write("merges.txt", "");
  EXPECT_THAT(refusal(folder_ / "vocab.json"),
              HasSubstr("vocab.json: objects and arrays are nested more than 64 deep"));
}

TEST_F(Files, AKindMayFollowAColon) {
  const fs::path file = write("mine", "IQ== 0\n");
  const TokenizerFiles named = find_tokenizer_files(file.string() + ":llama3");
  EXPECT_EQ(named.path, file);
  EXPECT_EQ(named.kind, "llama3");
  EXPECT_EQ(named.format, TokenizerFormat::tiktoken);
  const fs::path colon = write("mine:llama3", "{}");
  EXPECT_EQ(find_tokenizer_files(colon).path, colon);
}

TEST_F(Files, CopiesAreFoundAgain) {
  const auto copies = [](const fs::path& path) { return find_tokenizer_files(path).copies(); };
  const fs::path json = write("odd.json", "{}"), model = write("odd.model", sentencepiece_);
  const fs::path ranks = write("mine", "IQ== 0\n"), named = write("qwen.tiktoken", "IQ== 0\n");
  EXPECT_THAT(copies(json), ElementsAre(Pair(json, "tokenizer.json")));
  EXPECT_THAT(copies(model), ElementsAre(Pair(model, "tokenizer.model")));
  EXPECT_THAT(copies(ranks), ElementsAre(Pair(ranks, "tokenizer.model")));
  EXPECT_THAT(copies(ranks.string() + ":llama3"), ElementsAre(Pair(ranks, "llama3.tiktoken")));
  EXPECT_THAT(copies(named), ElementsAre(Pair(named, "qwen.tiktoken")));
  EXPECT_THAT(copies(folder_ / "vocab.json"),
              ElementsAre(Pair(folder_ / "vocab.json", "vocab.json"), Pair(folder_ / "merges.txt", "merges.txt")));
}

}  // namespace
}  // namespace partita::internal
