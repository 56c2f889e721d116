#include "partita/data/tokenize_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "partita/base/file.h"
#include "partita/data/indexed_dataset.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/compressed.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TokenizeCorpus : public testing::Test {
 protected:
  TokenizeOptions options(const std::string& input) {
    return {.inputs = {folder_ / input}, .output_prefix = folder_ / "out"};
  }
  TokenizeReport run(const TokenizeOptions& chosen) { return tokenize_corpus(chosen, *tokenizer_); }
  std::string refusal(const TokenizeOptions& chosen) {
    const std::string message = error_message([&] { run(chosen); });
    for (const auto& entry : fs::directory_iterator(folder_.path())) {  // nothing is left behind
      EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::StartsWith("out"))) << message;
    }
    return message;
  }
  std::vector<std::string> documents(const std::string& prefix) {
    const IndexedDataset dataset(folder_ / prefix);
    std::vector<std::string> found;
    for (int64_t d = 0; d < dataset.documents(); ++d) {
      found.emplace_back();
      for (int64_t s = dataset.document_begin(d); s < dataset.document_begin(d + 1); ++s) {
        std::vector<int32_t> ids(static_cast<size_t>(dataset.length(s)));
        dataset.read(s, 0, ids);
        found.back() += (s > dataset.document_begin(d) ? "|" : "") + tokenizer_->decode(ids);
      }
    }
    return found;
  }

  TemporaryDirectory folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json");
};

TEST_F(TokenizeCorpus, DocumentsComeBack) {
  write_file(folder_ / "a.jsonl", "{\"text\": \"Hello\\nworld\"}\n{\"text\": \"\"}\n{\"text\": \"<|endoftext|>\"}\n");
  write_file(folder_ / "b.txt", "plain text\n");
  auto chosen = options("a.jsonl");
  chosen.inputs.push_back(folder_ / "b.txt");
  const TokenizeReport report = run(chosen);
  EXPECT_THAT(documents("out_text_document"), ElementsAre("Hello\nworld", "", "<|endoftext|>", "plain text\n"));
  EXPECT_EQ(report.progress.documents, 4);
  EXPECT_EQ(report.empty_documents, 1);
  EXPECT_EQ(report.bad_documents, 0);
  EXPECT_EQ(report.progress.bytes, report.progress.total_bytes);
  EXPECT_THAT(report.prefixes, ElementsAre(folder_ / "out_text_document"));
  EXPECT_EQ(IndexedDataset(folder_ / "out_text_document").tokens(), report.tokens);
}

TEST_F(TokenizeCorpus, EndOfDocumentIsCountedInTheLength) {
  write_file(folder_ / "a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"\"}\n{\"text\": \"c\"}\n");
  auto chosen = options("a.jsonl");
  chosen.append_eod = true;
  run(chosen);
  const IndexedDataset dataset(folder_ / "out_text_document");
  ASSERT_EQ(dataset.sequences(), 2);  // none for the empty document
  EXPECT_EQ(dataset.documents(), 3);  // which is one
  std::vector<int32_t> ids(static_cast<size_t>(dataset.length(1)));
  dataset.read(1, 0, ids);
  EXPECT_THAT(ids, ElementsAre(66, 699));  // "c", <|endoftext|>
}

TEST_F(TokenizeCorpus, ADatasetForEachKey) {
  write_file(folder_ / "a.jsonl", "{\"title\": \"T1\", \"body\": \"B1\"}\n{\"body\": \"B2\", \"title\": \"\"}\n");
  auto chosen = options("a.jsonl");
  chosen.text.json_keys = {"title", "body"};
  const TokenizeReport report = run(chosen);
  EXPECT_THAT(documents("out_title_document"), ElementsAre("T1", ""));
  EXPECT_THAT(documents("out_body_document"), ElementsAre("B1", "B2"));
  EXPECT_EQ(report.progress.documents, 2);
  EXPECT_EQ(report.empty_documents, 1);
}

TEST_F(TokenizeCorpus, TheNumberOfWorkersChangesNoByte) {
  std::mt19937 random(10);
  std::string content, words;
  while (content.size() < 6'000'000) {  // several chunks
    std::string text;
    for (auto n = random() % 400; n > 0; --n) text += fmt::format("{} ", random() % 3000);
    content += nlohmann::json({{"text", text}}).dump() + (random() % 50 == 0 ? "\nnot JSON\n" : "\n");
  }
  write_file(folder_ / "a.jsonl", content);
  std::string bin, index;
  std::vector<std::string> problems;
  for (int workers : {1, 2, 5}) {
    auto chosen = options("a.jsonl");
    chosen.workers = workers;
    chosen.append_eod = chosen.skip_bad_documents = true;
    const TokenizeReport report = run(chosen);
    if (workers == 1) {
      bin = read_file(folder_ / "out_text_document.bin");
      index = read_file(folder_ / "out_text_document.idx");
      problems = report.problems;
      EXPECT_EQ(problems.size(), TokenizeReport::kMostProblems);
      EXPECT_GT(report.bad_documents, 20);
      EXPECT_GT(report.progress.documents, 1000);
    }
    EXPECT_TRUE(read_file(folder_ / "out_text_document.bin") == bin);
    EXPECT_TRUE(read_file(folder_ / "out_text_document.idx") == index);
    EXPECT_EQ(report.problems, problems);
  }
}

TEST_F(TokenizeCorpus, BadDocumentsEndTheRunOrAreSkipped) {
  std::string content;
  for (int i = 0; i < 200'000; ++i) content += "{\"text\": \"fine\"}\n";  // several chunks before the bad line
  const auto byte = content.size();
  content += "{\"text\": \"a\xFF\"}\n{\"text\": \"last\"}\n";
  write_file(folder_ / "a.jsonl", content);
  auto chosen = options("a.jsonl");
  chosen.workers = 3;
  const std::string place = fmt::format("a.jsonl:200001: byte {}: invalid UTF-8 (0xFF)", byte + 11);
  EXPECT_THAT(refusal(chosen), HasSubstr(place));
  chosen.skip_bad_documents = true;
  const TokenizeReport report = run(chosen);
  EXPECT_EQ(report.bad_documents, 1);
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr(place)));
  EXPECT_EQ(report.progress.documents, 200'001);
  EXPECT_EQ(documents("out_text_document").back(), "last");
}

TEST_F(TokenizeCorpus, SentencesAreSequences) {
  write_file(folder_ / "a.jsonl", "{\"text\": \"One. Two!\\nThree\"}\n{\"text\": \" \\n\"}\n{\"text\": \"Four\"}\n");
  auto chosen = options("a.jsonl");
  chosen.sentences.emplace();
  chosen.append_eod = true;
  const TokenizeReport report = run(chosen);
  EXPECT_THAT(report.prefixes, ElementsAre(folder_ / "out_text_sentence"));
  EXPECT_THAT(documents("out_text_sentence"), ElementsAre("One.|Two!|Three<|endoftext|>", "", "Four<|endoftext|>"));
  EXPECT_EQ(report.empty_documents, 1);
  chosen.sentences->keep_newlines = true;
  run(chosen);
  EXPECT_THAT(documents("out_text_sentence")[0], "One. |Two!\n|Three<|endoftext|>");
  chosen.sentences->language = "zz";
  EXPECT_THAT(error_message([&] { run(chosen); }), HasSubstr("no rules for sentences of the language \"zz\""));
}

// However the input is compressed and cut into files, and by any number of workers.
TEST_F(TokenizeCorpus, CompressionChangesNoByte) {
  std::mt19937 random(11);
  std::string content;
  while (content.size() < 5'000'000) {
    std::string text;
    for (auto n = random() % 300; n > 0; --n) text += fmt::format("{} ", random() % 3000);
    content += nlohmann::json({{"text", text}}).dump() + (random() % 50 == 0 ? "\n[1]\n" : "\n");
  }
  write_file(folder_ / "a.jsonl", content);
  write_file(folder_ / "a.jsonl.gz", gzip(content));
  write_file(folder_ / "a.jsonl.zst", zstd(content));
  std::string bin, index;
  for (const char* input : {"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"}) {
    for (int workers : {1, 4}) {
      auto chosen = options(input);
      chosen.workers = workers;
      chosen.skip_bad_documents = true;
      const TokenizeReport report = run(chosen);
      EXPECT_EQ(report.progress.text_bytes, static_cast<int64_t>(content.size()));
      EXPECT_EQ(report.progress.bytes, report.progress.total_bytes);
      EXPECT_THAT(report.problems[0], HasSubstr(fmt::format("{}:", input)));
      if (bin.empty()) {
        bin = read_file(folder_ / "out_text_document.bin");
        index = read_file(folder_ / "out_text_document.idx");
      }
      EXPECT_TRUE(read_file(folder_ / "out_text_document.bin") == bin) << input;
      EXPECT_TRUE(read_file(folder_ / "out_text_document.idx") == index) << input;
    }
  }
  const std::string whole = read_file(folder_ / "a.jsonl.gz");
  write_file(folder_ / "b.jsonl.gz", whole.substr(0, whole.size() / 3));
  EXPECT_THAT(error_message([&] { run(options("b.jsonl.gz")); }), HasSubstr("b.jsonl.gz: gzip data that is cut short"));
}

TEST_F(TokenizeCorpus, RefusesWhatCannotWork) {
  write_file(folder_ / "empty.jsonl", "");
  write_file(folder_ / "blank.jsonl", "{\"text\": \"\"}\n");
  write_file(folder_ / "a.txt", "text");
  EXPECT_THAT(refusal(options("empty.jsonl")),
              HasSubstr("empty.jsonl: no document with text (0 B, 0 empty documents, 0 bad ones, 0 too long)"));
  EXPECT_THAT(refusal(options("blank.jsonl")), HasSubstr("(13 B, 1 empty documents, 0 bad ones, 0 too long)"));
  EXPECT_THAT(refusal(options("no.txt")), HasSubstr("no.txt"));
  auto chosen = options("a.txt");
  chosen.text.json_keys = {"a", "b"};
  EXPECT_THAT(refusal(chosen), HasSubstr("plain text has one text a document, 2 JSON keys were given"));
  chosen = options("a.txt");
  chosen.output_prefix = folder_ / "a.txt" / "out";  // its folder would be made, and is a file
  EXPECT_THAT(refusal(chosen), HasSubstr("a.txt"));
  chosen.output_prefix = folder_ / "new" / "folder" / "out";
  EXPECT_EQ(refusal(chosen), "no error");
  EXPECT_TRUE(fs::exists(folder_ / "new/folder/out_text_document.idx"));
}

TEST_F(TokenizeCorpus, ReadsDocumentsOneByOne) {
  write_file(folder_ / "a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  write_file(folder_ / "b.txt", "c");
  std::vector<std::string> found;
  for_each_document({folder_ / "a.jsonl", folder_ / "b.txt"}, {},
                    [&](std::string_view text) { found.emplace_back(text); });
  EXPECT_THAT(found, ElementsAre("a", "b", "c"));
  write_file(folder_ / "a.jsonl", "{\"text\": \"a\"}\nx\n");
  EXPECT_THAT(error_message([&] { for_each_document({folder_ / "a.jsonl"}, {}, [](std::string_view) {}); }),
              AllOf(HasSubstr("a.jsonl:2: byte 14"), HasSubstr("not JSON")));
}

}  // namespace
}  // namespace partita::internal
