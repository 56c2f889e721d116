// Runs the commands of docs/data.md and checks their results.
#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class DataTutorial : public ShellTest {};

TEST_F(DataTutorial, WorksAsWritten) {
  for (const std::string& block : shell_blocks(read_file(PARTITA_SOURCE_DIR "/docs/data.md"))) must(block);

  EXPECT_THAT(shell("partita dataset inspect all_text_document --documents 0").output, HasSubstr("600 documents"));
  // The merged files are what tokenizing all at once gives.
  must("partita tokenize --quiet --input corpus.jsonl --tokenizer tokenizer.json --append-eod --output-prefix whole");
  for (const char* end : {".bin", ".idx", ".sums"})
    EXPECT_TRUE(read_file(folder_ / (std::string("whole_text_document") + end)) ==
                read_file(folder_ / (std::string("all_text_document") + end)));
  EXPECT_THAT(shell("partita dataset inspect parts_title_sentence --documents 1 --tokenizer tokenizer.json").output,
              HasSubstr("Part 0"));
  for (const char* file : {"order/dataset_index.npy", "order/0/shuffle_index.npy", "order/1/sample_index.npy"})
    EXPECT_TRUE(fs::exists(folder_ / file)) << file;
  for (const char* kept : {"web_text_document_cache", "books_text_document_cache"})
    EXPECT_FALSE(fs::is_empty(folder_ / kept)) << kept;
  const auto lines = metrics(folder_ / "runs/blend");
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back().at("step"), 12);
}

// The first plan's samples stay: the second half of a run that was begun with its whole length, and of one that was
// begun with half of it and prolonged past an epoch's end, begin alike.
TEST_F(DataTutorial, AProlongedRunReadsTheSamplesThatItWouldHaveRead) {
  const auto blocks = shell_blocks(read_file(PARTITA_SOURCE_DIR "/docs/data.md"));
  must(blocks[0] + blocks[1]);
  std::string config;
  for (const std::string& block : blocks)
    if (block.find("blend.toml <<") != std::string::npos) config = block.substr(0, block.find("partita train"));
  must(config);
  const std::string train =
      "partita train blend.toml --schedule.kind=constant --log.every=1 --eval.every=0 --checkpoint.every=4 "
      "--checkpoint.keep_last=0 "
      "--data.split=20,80,0 --model.dropout=0.1 ";
  must(train + "--run.directory=runs/whole --train.steps=9");
  must(train +
       "--run.directory=runs/stopped --train.steps=9 && rm -r runs/stopped/checkpoints/step-00000009 "
       "runs/stopped/checkpoints/step-00000008");
  must("head -n 4 runs/stopped/metrics.jsonl > m && mv m runs/stopped/metrics.jsonl");
  // So many samples are several epochs, which one plan would shuffle together.
  const Result r = shell(train + "--run.directory=runs/stopped --train.steps=40");
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, AllOf(HasSubstr("resuming from"), testing::Not(HasSubstr("will not reproduce"))));
  must(train + "--run.directory=runs/begun-anew --train.steps=40");
  EXPECT_NE(metrics(folder_ / "runs/begun-anew")[8].at("loss"), metrics(folder_ / "runs/whole")[8].at("loss"))
      << "one plan of all epochs has the same order: the test shows nothing";
  const auto whole = metrics(folder_ / "runs/whole"), prolonged = metrics(folder_ / "runs/stopped");
  ASSERT_EQ(prolonged.size(), 40U);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(prolonged[i].at("step"), whole[i].at("step"));
    EXPECT_EQ(prolonged[i].at("loss"), whole[i].at("loss")) << i;
  }
}

}  // namespace
}  // namespace partita::internal::test
