// For every command, lost output is a single-sentence error with exit code 1.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// With standard output on a disk that is full.
Result on_full_disk(const std::vector<std::string>& arguments, const std::string& input = "/dev/null") {
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" < " + input + " > /dev/full", "sh"};
  for (const std::string& word : command_line(arguments)) command.push_back(word);
  return Process(command, {{"OMP_NUM_THREADS", "1"}}).end(std::chrono::seconds(60));
}

void expect_lost(const Result& r, const std::string& command) {
  EXPECT_EQ(r.code, 1) << command << r.error;
  EXPECT_THAT(r.error, HasSubstr("cannot write to standard output: No space left on device")) << command;
  EXPECT_EQ(r.error.find("standard output"), r.error.rfind("standard output")) << command << ": said once";
}

TEST(Output, ThatIsLostIsAnError) {
  const TemporaryDirectory folder;
  const std::string config = SmallRun::get().config(), prefix = SmallRun::get().prefix().string(),
                    tokenizer = SmallRun::get().tokenizer().string(), run = (folder / "run").string();
  ASSERT_EQ(partita(train_command(1, run, {"--train.steps=1"})).code, 0);
  write_file(folder / "ids", "[1, 2]\n");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"--help"},
           {"--version"},
           {"help", "tokenize"},
           {"train", "--help"},
           {"train", config, "--print-config"},
           {"dataset", "inspect", prefix},
           {"dataset", "verify", prefix},
           {"dataset", "merge", (folder / "merged").string(), prefix},
           {"dataset", "index", prefix, "--sequence-length", "8", "--output", (folder / "index").string()},
           {"checkpoint", "inspect", run},
           {"checkpoint", "verify", run},
           {"checkpoint", "list", run},
           {"checkpoint", "list", run, "--json"},
           {"checkpoint", "diff", run, run},
           {"checkpoint", "prune", run, "--keep-last", "1"},
           {"checkpoint", "convert", run, (folder / "converted").string()},
           {"export", run, (folder / "exported").string()},
           {"import", (folder / "exported").string(), (folder / "imported").string()},
           {"tokenize", "--quiet", "--input", SmallRun::get().text().string(), "--tokenizer", tokenizer,
            "--output-prefix", (folder / "tokens").string()},
           {"generate", run, "--prompt", "the", "--tokens", "2"},
           {"eval", run, "--data", prefix, "--batches", "1"}})
    expect_lost(on_full_disk(command), fmt::format("{}: ", fmt::join(command, " ")));
  expect_lost(on_full_disk({"launch", "-n", "2", "--", "eval", run, "--data", prefix, "--batches", "2"}), "launch: ");
  expect_lost(on_full_disk({"tokenizer", "encode", tokenizer}, config), "tokenizer encode: ");
  expect_lost(on_full_disk({"tokenizer", "decode", tokenizer}, (folder / "ids").string()), "tokenizer decode: ");
}

// A run is worth more than what it prints: it warns, once.
TEST(Output, OfARunIsNotNeeded) {
  const TemporaryDirectory folder;
  for (int ranks : {1, 2}) {
    const fs::path run = folder / std::to_string(ranks);
    const Result r = on_full_disk(train_command(ranks, run));
    EXPECT_EQ(r.code, 0) << r.error;
    if (ranks == 1) {
      EXPECT_THAT(r.error, HasSubstr("warning: cannot write to standard output: No space left on device"));
    }
    EXPECT_TRUE(fs::exists(run / "checkpoints/step-00000012"));
  }
}

// Names of files are shown in a form that moves no cursor, a pipe gets the text of documents as it is.
TEST(Output, SpellsOutNames) {
  const TemporaryDirectory folder;
  const std::string name = folder / "a\n\x1b[2J";
  const std::string shown = (folder / "a\\x0a\\x1b[2J").string();
  for (const char* end : {".bin", ".idx"}) fs::copy_file(SmallRun::get().prefix().string() + end, name + end);
  const Result r = partita({"dataset", "inspect", name, "--documents", "0"});
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.output, testing::StartsWith(shown + ": 120 documents"));
  const Result t = partita({"tokenizer", "train", "--quiet", "--input", SmallRun::get().text().string(), "--vocab-size",
                            "300", "--output", name + ".json"});
  EXPECT_THAT(t.output, testing::StartsWith(shown + ".json: 300 tokens"));
}

}  // namespace
}  // namespace partita::internal::test
