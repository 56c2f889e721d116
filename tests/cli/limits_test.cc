// Impossible sizes and insufficient memory: a single-sentence error with exit code 1 before anything is allocated or
// written; never a signal, a stack trace or a bare library message.
#include <gmock/gmock.h>
#include <unistd.h>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// `partita ARGUMENTS` under a limit that bash sets: "ulimit -v 6000000".
Result limited(const std::string& limit, std::vector<std::string> arguments) {
  std::vector<std::string> command = {"bash", "-c", limit + "; export OMP_NUM_THREADS=1; exec \"$@\"", "bash"};
  for (std::string& word : command_line(std::move(arguments))) command.push_back(std::move(word));
  return Process(command).end(std::chrono::seconds(120));
}

void expect_sentence(const Result& r, int code = 1) {
  EXPECT_EQ(r.code, code) << r.output << r.error;
  EXPECT_THAT(r.error, HasSubstr("partita: "));
  for (const char* raw : {"terminate called", "frame #", "enforce fail", "what():", "Exception raised"})
    EXPECT_THAT(r.error, Not(HasSubstr(raw)));
}

TEST(Memory, IsForeseenUnderALimitOfAddressSpace) {
  const TemporaryDirectory folder;
  const Result r =
      limited("ulimit -v 6000000",
              train_command(1, folder / "run", {"--model.layers=48", "--model.hidden_size=4096", "--model.heads=32"}));
  expect_sentence(r);
  EXPECT_THAT(r.error, AllOf(HasSubstr("of memory is needed per rank"), HasSubstr("ulimit -v"), HasSubstr("weights"),
                             HasSubstr("optimizer states"), HasSubstr("what lowers it"),
                             HasSubstr("parallel.zero_stage=3 on 8 ranks")));
  EXPECT_FALSE(fs::exists(folder / "run"));
  EXPECT_LT(r.seconds, 30);
}

TEST(Memory, OfSeveralRanksNamesWhatWouldLowerIt) {
  const TemporaryDirectory folder;
  const Result r =
      partita(train_command(2, folder / "run", {"--model.layers=96", "--model.hidden_size=12288", "--model.heads=96"}));
  expect_sentence(r);
  EXPECT_THAT(r.error, AllOf(HasSubstr("of memory is needed per rank"), HasSubstr("parallel.zero_stage=3")));
  EXPECT_EQ(r.error.find("are needed per rank"), r.error.rfind("are needed per rank")) << "said once";
}

// Master weights and optimizer states alone, 868 MiB, are more than the limit; what stays in memory is less.
TEST(Memory, StatesOnDiskNeedNot) {
  const TemporaryDirectory folder;
  const auto train = [&](const std::string& limit, const char* run, const std::string& place) {
    return limited(limit, train_command(1, folder / run,
                                        {"--model.layers=24", "--model.hidden_size=512", "--model.heads=8",
                                         "--train.micro_batch=1", "--train.global_batch=1", "--train.steps=2",
                                         "--precision.compute=bf16", "--train.device=cpu", "--checkpoint.every=0",
                                         "--eval.every=0", "--log.tensorboard=false", "--memory.optimizer=" + place,
                                         "--memory.disk_folder=" + (folder / "scratch").string()}));
  };
  const std::string limit = "ulimit -d 840000";  // KiB
  const Result refused = train(limit, "limited", "device");
  expect_sentence(refused);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("of memory is needed per rank"), HasSubstr("ulimit -d"),
                                   HasSubstr("master weights    289.3 MiB"), HasSubstr("optimizer states  578.5 MiB"),
                                   HasSubstr("memory.optimizer=disk:0.")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const Result trained = train(limit, "limited", "disk");
  EXPECT_EQ(trained.code, 0) << trained.error;
  EXPECT_TRUE(fs::is_empty(folder / "scratch"));
  ASSERT_EQ(train("true", "free", "device").code, 0);
  expect_same_run(folder / "limited", folder / "free", 0);
}

TEST(Memory, LittleOfItGivesOneSentence) {
  const TemporaryDirectory folder;
  for (const char* limit : {"ulimit -v 1200000", "ulimit -v 900000", "ulimit -d 60000"}) {
    const Result r = limited(limit, train_command(1, folder / "run", {"--train.steps=2", "--checkpoint.every=0"}));
    if (r.code == 0 || r.code == 127) continue;  // it was enough, or too little to load the program
    expect_sentence(r);
  }
}

TEST(Sizes, ThatNoMachineHas) {
  const TemporaryDirectory folder;
  for (const char* key :
       {"model.layers=4611686018427387904", "train.threads=1000000", "train.steps=2305843009213693952",
        "train.micro_batch=4611686018427387904", "lora.rank=9223372036854775807"}) {
    const Result r = partita(train_command(1, folder / "run", {std::string("--") + key}));
    expect_sentence(r, 2);  // as every value that its key does not take
    EXPECT_THAT(r.error,
                AllOf(HasSubstr(std::string(key).substr(0, std::string(key).find('='))), HasSubstr("at most")));
    EXPECT_LT(r.seconds, 20);
  }
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(Sizes, OfAnOrderOfSamples) {
  const TemporaryDirectory folder;
  const Result r = partita(
      train_command(1, folder / "run", {"--train.steps=1000000000000", "--schedule.decay=100", "--data.cache=none"}));
  expect_sentence(r);
  EXPECT_THAT(r.error, AllOf(HasSubstr("the order of"), HasSubstr("of memory"), HasSubstr("train.steps")));
  EXPECT_LT(r.seconds, 30);
}

TEST(Sizes, OfACommandsOptions) {
  expect_sentence(partita({"bench", "step", "--train.micro_batch=1073741824"}));
  expect_sentence(partita({"bench", "step", "--model.layers=1000", "--model.hidden_size=65536", "--model.heads=64",
                           "--train.sequence_length=4096", "--train.micro_batch=64"}));
}

TEST(Names, InMessagesMoveNoCursor) {
  const TemporaryDirectory folder;
  for (const std::string& name : {std::string("x\x1b[2Jy"), std::string("x\xffy"), std::string("x\u009b2Jy")}) {
    const Result r = partita({"train", (folder / (name + ".toml")).string()});
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.error,
                AllOf(HasSubstr("x\\"), Not(HasSubstr("\x1b")), Not(HasSubstr("\xff")), Not(HasSubstr("\xc2\x9b"))));
  }
  const Result usage = partita({"train\x1b[2J"});
  EXPECT_EQ(usage.code, 2);
  EXPECT_THAT(usage.error, Not(HasSubstr("\x1b")));
  // Also what is shown on stdout, and warnings.
  write_file(folder / "a.toml", read_file(SmallRun::get().config()));
  const Result printed = partita({"train", (folder / "a.toml").string(), "--print-config", "--train.freeze=a\x1b[2J"});
  EXPECT_EQ(printed.code, 0) << printed.error;
  EXPECT_THAT(printed.output, AllOf(HasSubstr("freeze"), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace partita::internal::test
