// Training from the command line: run, resume, stop, change of parallel layout.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::HasSubstr;

fs::path newest(const fs::path& checkpoints) {
  fs::path last;
  for (const auto& entry : fs::directory_iterator(checkpoints))
    if (entry.path().extension().empty()) last = std::max(last, entry.path());
  return last;
}

TEST(Train, WritesARunAndLearns) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const Result r = partita(train_command(2, run, {"--parallel.zero_stage=2"}));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.output, HasSubstr("***** Running training *****"));
  EXPECT_THAT(r.output, HasSubstr("Total train batch size (w. parallel, distributed & accumulation) = 12"));
  EXPECT_THAT(r.output, HasSubstr("iteration       12/      12"));
  EXPECT_THAT(r.output, HasSubstr("validation loss at"));
  const auto lines = metrics(run);
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_NEAR(lines.front().at("loss"), std::log(300.0), 0.3);
  EXPECT_LT(lines.back().at("loss") + 0.3, lines.front().at("loss"));
  EXPECT_EQ(lines.back().at("consumed_samples"), 144);
  for (const char* file : {"config.toml", "versions.json", "tokenizer.json", "validation.jsonl"})
    EXPECT_TRUE(fs::exists(run / file)) << file;
  EXPECT_TRUE(fs::exists(run / "checkpoints/step-00000012/manifest.json"));
  EXPECT_FALSE(fs::exists(run / "checkpoints/step-00000004"));  // keep_last = 2

  // The saved configuration is the run's own: it makes the same run.
  const fs::path again = folder / "again";
  ASSERT_EQ(partita({"launch", "-n", "2", "--", "train", (run / "config.toml").string(), run_in(again)}).code, 0);
  expect_same_run(again, run, 0);

  // And nothing is left to do.
  const Result done = partita(train_command(2, run, {"--parallel.zero_stage=2"}));
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.error, HasSubstr("The run is complete (step 12 of 12)"));
}

TEST(Train, ProfilesAFewSteps) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run", plain = folder / "plain", few = folder / "few";
  const Result r = partita(train_command(2, run, {"--profile"}));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.output, HasSubstr("3 steps of "));
  EXPECT_THAT(read_file(run / "profile.txt"), HasSubstr("backward block"));
  EXPECT_THAT(read_file(run / "profile.json"), HasSubstr("\"traceEvents\""));

  ASSERT_EQ(partita(train_command(2, plain)).code, 0);
  EXPECT_FALSE(fs::exists(plain / "profile.json"));
  expect_same_run(run, plain, 0);

  const Result ended = partita(train_command(1, few, {"--log.profile_steps=8"}));  // of 12 steps, behind five
  ASSERT_EQ(ended.code, 0);
  EXPECT_THAT(ended.error, HasSubstr("no profile was written"));
}

TEST(Train, EveryLayoutIsTheSameRun) {
  const TemporaryDirectory folder;
  ASSERT_EQ(partita(train_command(1, folder / "one")).code, 0);
  for (int ranks : {2, 3})
    for (int stage : {0, 3}) {
      const fs::path run = folder / (std::to_string(ranks) + "-" + std::to_string(stage));
      const Result r =
          partita(train_command(ranks, run, {"--parallel.zero_stage=" + std::to_string(stage), "--debug.poison=true"}));
      ASSERT_EQ(r.code, 0) << r.error;
      expect_same_run(run, folder / "one", 1e-5);
    }
}

// 50 + 50 steps with a restart from the checkpoint equal 100 without.
TEST(Train, ResumesBitForBit) {
  struct Layout {
    int ranks, stage;
    std::vector<std::string> options;
  };
  const TemporaryDirectory folder;
  const std::vector<Layout> layouts = {
      {1, 0, {}},
      {2, 2, {"--model.kind=llama", "--optimizer.kind=lamb", "--train.freeze=embedding.*"}},
      {2,
       3,
       {"--precision.compute=bf16", "--model.kind=llama", "--model.heads=4", "--model.kv_heads=2",
        "--model.head_width=8", "--precision.states=bf16"}},
      {3, 1, {"--precision.compute=bf16"}},
      {2, 1, {"--precision.compute=fp16", "--loss_scale.window=8", "--optimizer.kind=sgd"}},
      {2, 2, {"--precision.compute=bf16", "--precision.fp8=delayed", "--model.hidden_size=32"}}};
  for (const auto& [ranks, stage, more] : layouts) {
    std::vector<std::string> options = {"--train.steps=40", "--checkpoint.every=20", "--eval.every=10",
                                        "--parallel.zero_stage=" + std::to_string(stage)};
    options.insert(options.end(), more.begin(), more.end());
    const fs::path run = folder / "run", whole = folder / "whole";
    fs::remove_all(run);
    fs::remove_all(whole);
    ASSERT_EQ(partita(train_command(ranks, run, options)).code, 0);
    fs::create_directory(whole);
    fs::copy(run / "metrics.jsonl", whole / "metrics.jsonl");
    const std::string manifest = read_file(run / "checkpoints/step-00000040/manifest.json");
    fs::remove_all(run / "checkpoints/step-00000040");
    const Result r = partita(train_command(ranks, run, options));
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr("resuming from " + (run / "checkpoints/step-00000020").string()));
    expect_same_run(run, whole, 0);
    // The weights too: the manifest holds checksums of all that was saved.
    EXPECT_EQ(read_file(run / "checkpoints/step-00000040/manifest.json"), manifest);
  }
}

TEST(Train, ResumesOnAnotherLayout) {
  const TemporaryDirectory folder;
  ASSERT_EQ(partita(train_command(1, folder / "whole")).code, 0);
  const fs::path run = folder / "moved";
  ASSERT_EQ(partita(train_command(3, run, {"--parallel.zero_stage=3"})).code, 0);
  // Back to step 8, then on with other ranks and another stage.
  fs::remove_all(run / "checkpoints/step-00000012");
  const Result r = partita(train_command(2, run, {"--parallel.zero_stage=1"}));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("resuming from"));
  expect_same_run(run, folder / "whole", 1e-5);
}

TEST(Train, StopsOnRequestWithACheckpoint) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options = {"--train.steps=100000", "--checkpoint.every=0", "--eval.every=0",
                                            "--log.every=1"};
  Process process(command_line(train_command(2, run, options)), {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(process.until([&] { return process.seen().output.find("iteration        3/") != std::string::npos; },
                            seconds(60)))
      << process.seen().error;
  kill(process.pid(), SIGINT);
  const Result r = process.end(seconds(30));
  EXPECT_EQ(r.code, 75) << r.error;
  EXPECT_THAT(r.error, HasSubstr("Stopping after this step, then saving a checkpoint. Ctrl-C again stops now."));
  EXPECT_THAT(r.error, HasSubstr("Interrupted after step"));
  EXPECT_THAT(r.error, HasSubstr("Repeat the command to resume"));
  const auto lines = metrics(run);
  EXPECT_TRUE(fs::exists(run / "checkpoints" / fmt::format("step-{:08d}", lines.size()) / "manifest.json"));
}

TEST(Train, ADeadRankEndsTheJobInSeconds) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  Process process(
      command_line(train_command(2, run, {"--train.steps=100000", "--checkpoint.every=2", "--checkpoint.keep_last=1"})),
      {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(process.until([&] { return fs::exists(run / "checkpoints/step-00000004"); }, seconds(60)))
      << process.seen().error;
  // The ranks are the processes whose command line begins with "PROGRAM train" and names this run.
  pid_t rank = -1;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    const std::string begin = std::string(PARTITA_PROGRAM) + '\0' + "train";
    if (line.starts_with(begin) && line.find(run.string()) != std::string::npos)
      rank = std::stoi(entry.path().filename().string());
  }
  ASSERT_GT(rank, 0);
  kill(rank, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  const Result r = process.end(seconds(40));
  EXPECT_EQ(r.code, 1) << r.error;
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count(), 20);
  EXPECT_THAT(r.error, HasSubstr("signal 9 (SIGKILL: out of memory, or kill -9)"));
  EXPECT_THAT(r.error, testing::Not(HasSubstr("Stopping after this step"))) << "nobody asked for it";
  // What was saved is whole, and the run goes on from it.
  EXPECT_EQ(partita({"checkpoint", "verify", run.string()}).code, 0);
  const auto saved = nlohmann::json::parse(read_file(newest(run / "checkpoints") / "manifest.json"));
  const auto step = saved.at("step").get<int64_t>();
  const Result next = partita(train_command(2, run, {"--train.steps=" + std::to_string(step + 2)}));
  EXPECT_EQ(next.code, 0) << next.error;
  EXPECT_EQ(metrics(run).size(), static_cast<size_t>(step + 2));
}

TEST(Train, GeneratesFromARun) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  ASSERT_EQ(partita(train_command(1, run, {"--train.steps=40", "--optimizer.learning_rate=1e-2"})).code, 0);
  const std::vector<std::string> generate = {"generate", run.string(), "--prompt", "the river",
                                             "--tokens", "30",         "--seed",   "5"};
  const Result a = partita(generate), b = partita(generate);
  ASSERT_EQ(a.code, 0) << a.error;
  EXPECT_EQ(a.output, b.output);
  EXPECT_TRUE(a.output.starts_with("the river"));
  EXPECT_GT(a.output.size(), 20U);
  std::vector<std::string> greedy = generate;
  greedy.emplace_back("--greedy");
  EXPECT_EQ(partita(greedy).output, partita(greedy).output);
  EXPECT_NE(partita(greedy).output, a.output);
  // A path as a shell completes it, and one relative to its own folder.
  std::vector<std::string> other = generate;
  other[1] = (run / "checkpoints/step-00000040").string() + "/";
  EXPECT_EQ(partita(other).output, a.output);
  Process inside(
      {"/bin/sh", "-c",
       "cd '" + (run / "checkpoints").string() +
           "' && exec '" PARTITA_PROGRAM "' generate step-00000040 --prompt 'the river' --tokens 30 --seed 5"},
      {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(inside.end(seconds(60)).output, a.output);
}

// Dropout so small that a 16-bit mask cannot show it is refused; the smallest that it can works.
TEST(Train, TheSmallestDropout) {
  const TemporaryDirectory folder;
  const Result refused = partita(train_command(1, folder / "a", {"--model.dropout=1e-6"}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error, HasSubstr("1/65536"));
  EXPECT_EQ(partita(train_command(1, folder / "b", {"--model.dropout=1.6e-5", "--train.steps=2"})).code, 0);
}

// A schedule in samples counts the samples that were really consumed, when the batch changes on the way.
TEST(Train, ScheduleInSamplesFollowsTheBatch) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> schedule = {"--schedule.unit=samples", "--schedule.warmup=96", "--schedule.decay=960",
                                             "--schedule.kind=constant", "--eval.every=0"};
  std::vector<std::string> first = schedule, second = schedule;
  first.insert(first.end(), {"--train.steps=4", "--train.global_batch=6"});
  second.insert(second.end(), {"--train.steps=6", "--train.global_batch=12"});
  ASSERT_EQ(partita(train_command(1, run, first)).code, 0);
  const Result r = partita(train_command(1, run, second));
  ASSERT_EQ(r.code, 0) << r.error;
  const auto lines = metrics(run);
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[4].at("consumed_samples"), 36);
  // Constant minus one step of 6 or 12 samples behind the warmup's line: the rate is proportional to the samples.
  const double unit = lines[0].at("lr") / 6;
  EXPECT_NEAR(lines[3].at("lr") / 24, unit, 1e-9);
  EXPECT_NEAR(lines[4].at("lr") / 36, unit, 1e-9);
}

}  // namespace
}  // namespace partita::internal::test
