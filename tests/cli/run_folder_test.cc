// A run folder: only one process writes to it, a new start resumes where the last one stopped, and existing data is
// never lost.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kLong = {"--train.steps=100000", "--checkpoint.every=0", "--eval.every=0",
                                        "--log.every=1"};

std::vector<std::string> long_run(int ranks, const fs::path& run) {
  return command_line(train_command(ranks, run, kLong));
}

void flip(const fs::path& file, size_t byte) {
  std::string content = read_file(file);
  content[byte] = static_cast<char>(content[byte] ^ 1);
  write_file(file, content);
}

bool has_steps(const Process& process, int step) {
  return process.seen().output.find(fmt::format("iteration {:8d}/", step)) != std::string::npos;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// `run` with its checkpoints 4, 8 and 12 of 12 steps.
void make_run(const fs::path& run, const std::vector<std::string>& options = {}) {
  std::vector<std::string> all = {"--checkpoint.keep_last=0"};
  all.insert(all.end(), options.begin(), options.end());
  const Result r = partita(train_command(1, run, all));
  ASSERT_EQ(r.code, 0) << r.error;
}

TEST(RunFolder, ASecondStartIsRefused) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  fs::create_directory(folder / "place");
  fs::create_directory_symlink(folder / "place", folder / "alias");
  const fs::path same = folder / "alias" / "run";
  for (const auto& [first, second] : {std::pair(run, run), std::pair(folder / "place" / "run", same)}) {
    Process process(long_run(1, first), {{"OMP_NUM_THREADS", "1"}});
    ASSERT_TRUE(process.until([&] { return has_steps(process, 2); }, seconds(60))) << process.seen().error;
    for (int ranks : {1, 2}) {
      if (ranks == 2 && first == second) continue;
      const Result r = partita(train_command(ranks, second));
      EXPECT_EQ(r.code, 1);
      EXPECT_THAT(r.error, AllOf(HasSubstr("is in use by process " + std::to_string(process.pid())),
                                 HasSubstr("run.directory")));
    }
    kill(process.pid(), SIGINT);
    EXPECT_EQ(process.end(seconds(30)).code, 75);
    const auto lines = metrics(first);
    EXPECT_TRUE(fs::exists(first / "checkpoints" / fmt::format("step-{:08d}", lines.size())));
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].at("step"), static_cast<double>(i + 1));
    EXPECT_FALSE(fs::exists(first / "run.lock"));
  }
}

// kill -9 leaves a lock and half written files: the next start takes the one over and removes the others.
TEST(RunFolder, OfAKilledProcessIsTakenOver) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  Process process(long_run(1, run), {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(process.until([&] { return has_steps(process, 2); }, seconds(60))) << process.seen().error;
  kill(process.pid(), SIGKILL);
  EXPECT_EQ(process.end(seconds(30)).code, 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(run / "run.lock"));
  write_file(run / "config.toml.77-0.tmp", "half");
  const Result r = partita(train_command(1, run));
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("which is gone"));
  EXPECT_FALSE(fs::exists(run / "run.lock"));
  EXPECT_FALSE(fs::exists(run / "config.toml.77-0.tmp"));
  EXPECT_EQ(metrics(run).size(), 12U);
}

TEST(RunFolder, PlacesThatAreNoFolder) {
  const TemporaryDirectory folder;
  write_file(folder / "file", "mine");
  fs::create_symlink(folder / "nowhere", folder / "link");
  const auto error = [](const fs::path& run) {
    const Result r = partita(train_command(1, run));
    EXPECT_EQ(r.code, 1);
    return r.error;
  };
  EXPECT_THAT(error(folder / "file"), HasSubstr("file is a file: expected a folder"));
  EXPECT_THAT(error(folder / "file" / "run"), HasSubstr("file"));
  EXPECT_THAT(error(folder / "link"), AllOf(HasSubstr("symbolic link"), HasSubstr("nowhere")));
  EXPECT_EQ(read_file(folder / "file"), "mine");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"file", "link"}));
}

// An error before the run has begun leaves no folder behind.
TEST(RunFolder, OfARunThatDidNotBeginIsNotLeft) {
  const TemporaryDirectory folder;
  const Result r = partita(train_command(1, folder / "a" / "b", {"--data.path=/nowhere/tokens"}));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Resume, ObeysTheCheckpointThatIsNamed) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run", third = run / "checkpoints/step-00000004";
  make_run(run);
  const std::string before = read_file(run / "metrics.jsonl");
  const auto refused = [&](const std::vector<std::string>& options) {
    const Result r = partita(train_command(1, run, options));
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(read_file(run / "metrics.jsonl"), before);
    return r.error;
  };
  EXPECT_THAT(refused({"--checkpoint.resume=/nowhere/step-00000004"}), HasSubstr("/nowhere/step-00000004"));
  EXPECT_THAT(refused({"--checkpoint.resume=" + third.string()}), AllOf(HasSubstr("step 4"), HasSubstr("run.rewind")));
  make_run(folder / "other");
  EXPECT_THAT(refused({"--checkpoint.resume=" + (folder / "other").string()}), HasSubstr("another run.directory"));

  // Back to step 4, with all that came after kept; the same command again goes on, and does not go back once more.
  const std::vector<std::string> rewind = {"--checkpoint.resume=" + third.string(), "--run.rewind=true"};
  std::vector<std::string> part = rewind;
  part.emplace_back("--train.steps=8");
  const Result back = partita(train_command(1, run, part));
  ASSERT_EQ(back.code, 0) << back.error;
  EXPECT_THAT(back.error, AllOf(HasSubstr("rewinding from step 12 to step 4"), HasSubstr("train.steps: 12 -> 8")));
  EXPECT_EQ(metrics(run).size(), 8U);
  const fs::path kept = run / "rewound-from-step-00000012";
  EXPECT_EQ(read_file(kept / "metrics.jsonl"), before);
  EXPECT_EQ(partita({"checkpoint", "verify", (kept / "checkpoints/step-00000012").string()}).code, 0);
  const Result on = partita(train_command(1, run, rewind));
  ASSERT_EQ(on.code, 0) << on.error;
  EXPECT_THAT(on.error, HasSubstr("resuming from " + (run / "checkpoints/step-00000008").string()));
  // Also where later saves have removed the checkpoint that it names.
  fs::remove_all(third);
  std::vector<std::string> longer = rewind;
  longer.emplace_back("--train.steps=16");
  const Result gone = partita(train_command(1, run, longer));
  ASSERT_EQ(gone.code, 0) << gone.error;
  EXPECT_THAT(gone.error, HasSubstr("resuming from " + (run / "checkpoints/step-00000012").string()));
}

// A job that is started again by its scheduler, whose command first found nothing to go back from.
TEST(Resume, ARewindToTheNewestDoesNotGoBackLater) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  make_run(run);
  for (int from : {12, 16}) {
    const Result r = partita(
        train_command(1, run,
                      {"--checkpoint.resume=" + (run / "checkpoints/step-00000012").string(), "--run.rewind=true",
                       "--checkpoint.keep_last=0", fmt::format("--train.steps={}", from + 4)}));
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr(fmt::format("resuming from {}/checkpoints/step-{:08d}", run.string(), from)));
  }
  EXPECT_EQ(metrics(run).size(), 20U);
}

TEST(Resume, AForkLeavesItsParentAlone) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run", fork = folder / "fork";
  make_run(run);
  const std::string before = read_file(run / "metrics.jsonl");
  const std::vector<std::string> names = names_in(run / "checkpoints");
  const std::vector<std::string> options = {"--run.fork=" + fork.string(),
                                            "--checkpoint.resume=" + (run / "checkpoints/step-00000004").string()};
  std::vector<std::string> part = options;
  part.emplace_back("--train.steps=8");
  ASSERT_EQ(partita(train_command(1, fork, {"--run.fork=" + fork.string()})).code, 1) << "of itself";
  const Result r = partita(train_command(1, run, part));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("resuming from " + (run / "checkpoints/step-00000004").string()));
  EXPECT_EQ(read_file(run / "metrics.jsonl"), before);
  EXPECT_EQ(names_in(run / "checkpoints"), names);
  // With the same configuration it is the parent's run: the same command continues it, and so does its own configuration.
  ASSERT_EQ(partita({"train", (fork / "config.toml").string(), "--train.steps=10"}).code, 0);
  const Result same = partita(train_command(1, run, options));
  ASSERT_EQ(same.code, 0) << same.error;
  EXPECT_THAT(same.error, HasSubstr("resuming from " + (fork / "checkpoints/step-00000010").string()));
  EXPECT_EQ(metrics(fork).size(), 12U);
  EXPECT_THAT(read_file(fork / "lineage.json"), HasSubstr("step-00000004"));
}

// A folder that holds another run is not continued in the name of the fork.
TEST(Resume, AForkIntoAnotherRunIsRefused) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run", other = folder / "other", fork = folder / "fork";
  make_run(run);
  fs::copy(run, other, fs::copy_options::recursive);
  ASSERT_EQ(partita(train_command(1, other, {"--run.fork=" + fork.string(), "--train.steps=13"})).code, 0);
  const std::string before = read_file(fork / "metrics.jsonl");
  for (const auto& [into, message] : std::vector<std::pair<fs::path, std::string>>{
           {fork, "which began at " + (other / "checkpoints/step-00000012").string() + " and is at step 13"},
           {other, "which is not a fork and is at step 12"}}) {
    const Result r = partita(train_command(1, run, {"--run.fork=" + into.string(), "--train.steps=14"}));
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.error, AllOf(HasSubstr(message), HasSubstr("choose a new folder for this fork")));
  }
  EXPECT_EQ(read_file(fork / "metrics.jsonl"), before);
  EXPECT_EQ(partita(train_command(1, other, {"--run.fork=" + fork.string(), "--train.steps=14"})).code, 0);
  EXPECT_EQ(metrics(fork).size(), 14U);
}

// A command that names the newest checkpoint, as a scheduler repeats it when the run has come further.
TEST(Resume, ACommandThatNamedTheNewestIsRepeatable) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run", named = run / "checkpoints/step-00000012";
  make_run(run);
  for (int from : {12, 14, 16}) {
    const Result r = partita(train_command(1, run,
                                           {"--checkpoint.resume=" + named.string(), "--checkpoint.keep_last=0",
                                            fmt::format("--train.steps={}", from + 2)}));
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr(fmt::format("resuming from {}/checkpoints/step-{:08d}", run.string(), from)));
    if (from == 14) fs::remove_all(named);  // by retention: it is not needed any more
  }
  EXPECT_EQ(metrics(run).size(), 18U);
  const Result older = partita(train_command(
      1, run, {"--checkpoint.resume=" + (run / "checkpoints/step-00000014").string(), "--train.steps=20"}));
  EXPECT_EQ(older.code, 1);
  EXPECT_THAT(older.error, AllOf(HasSubstr("checkpoint.resume is step 14, but the run is at step 18"),
                                 HasSubstr("run.rewind=true"), HasSubstr("--run.fork=NEW_FOLDER")));
}

// What a fork continues with before its first checkpoint is its parent's, not its own first step.
TEST(Resume, AForkThatWasKilledEarlyBeginsAtItsParentAgain) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run", fork = folder / "fork";
  make_run(run);
  ASSERT_EQ(partita(train_command(1, run, {"--run.fork=" + fork.string(), "--train.steps=13"})).code, 0);
  fs::remove_all(fork / "checkpoints");
  const Result r = partita({"train", (fork / "config.toml").string()});
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("resuming from " + (run / "checkpoints/step-00000012").string()));
  EXPECT_EQ(metrics(fork).size(), 13U);
}

TEST(Resume, SaysWhatChanged) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  make_run(run);
  const Result r =
      partita(train_command(1, run,
                            {"--train.steps=14", "--optimizer.learning_rate=0.005", "--optimizer.weight_decay=0.2",
                             "--schedule.kind=linear", "--data.seed=4", "--log.every=2"}));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, AllOf(HasSubstr("warning: optimizer.learning_rate: 0.003 -> 0.005\n"),
                             HasSubstr("warning: optimizer.weight_decay: 0.1 -> 0.2\n"),
                             HasSubstr("warning: schedule.kind: \"cosine\" -> \"linear\"\n"),
                             HasSubstr("warning: train.steps: 12 -> 14\n"), HasSubstr("] log.every: 4 -> 2\n"),
                             HasSubstr("data.seed changed from 1234 to 4: the run will not reproduce the original"),
                             HasSubstr("learning rate at step 13: ")));
  EXPECT_THAT(r.error, Not(HasSubstr("data.seed: 1234 -> 4")));
  EXPECT_THAT(read_file(run / "config-until-step-00000012.toml"), HasSubstr("learning_rate = 0.003"));
  const Result same =
      partita(train_command(1, run,
                            {"--train.steps=15", "--optimizer.learning_rate=0.005", "--optimizer.weight_decay=0.2",
                             "--schedule.kind=constant", "--data.seed=4", "--log.every=2"}));
  EXPECT_THAT(same.error, Not(HasSubstr("weight_decay")));
}

TEST(Damage, OfTheNewestCheckpointGoesBackToTheOneBefore) {
  const TemporaryDirectory folder;
  for (int ranks : {1, 2}) {
    const fs::path run = folder / std::to_string(ranks), checkpoints = run / "checkpoints";
    make_run(run, {"--train.steps=16"});
    const std::string whole = read_file(checkpoints / "step-00000016/manifest.json");
    const fs::path file = checkpoints / "step-00000016/rank-00000.safetensors";
    flip(file, fs::file_size(file) - 100);
    const Result r = partita(train_command(ranks, run, {"--train.steps=16", "--checkpoint.keep_last=1"}));
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, AllOf(HasSubstr("checksum"), HasSubstr("step-00000016"), HasSubstr(".damaged"),
                               HasSubstr("resuming from " + (checkpoints / "step-00000012").string())));
    if (ranks == 1) {
      EXPECT_EQ(read_file(checkpoints / "step-00000016/manifest.json"), whole);
    }
    EXPECT_EQ(metrics(run).size(), 16U);
    // The damaged one stays, and is not counted as the one to keep.
    EXPECT_EQ(names_in(checkpoints), (std::vector<std::string>{"step-00000016", "step-00000016.damaged"}));
  }
  // The only one: it keeps its name, and nothing begins again.
  const fs::path run = folder / "only", file = run / "checkpoints/step-00000012/rank-00000.safetensors";
  make_run(run, {"--checkpoint.every=0"});
  flip(file, fs::file_size(file) - 100);
  const Result r = partita(train_command(1, run, {"--train.steps=16"}));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, HasSubstr("rank-00000.safetensors is damaged"));
  EXPECT_EQ(names_in(run / "checkpoints"), std::vector<std::string>{"step-00000012"});
  // One that the command names keeps its name too, and no other is taken in its place.
  const fs::path named = folder / "named", wanted = named / "checkpoints/step-00000012";
  make_run(named);
  flip(wanted / "rank-00000.safetensors", fs::file_size(wanted / "rank-00000.safetensors") - 100);
  const Result refused =
      partita(train_command(1, named, {"--train.steps=16", "--checkpoint.resume=" + wanted.string()}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error, HasSubstr("rank-00000.safetensors is damaged"));
  EXPECT_TRUE(fs::exists(wanted));
}

// What cannot be read is not gone: the run does not begin again over it, and nothing is removed.
TEST(Damage, OfAllCheckpointsStopsTheRun) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  make_run(run);
  const std::string before = read_file(run / "metrics.jsonl");
  const std::vector<std::string> names = names_in(run / "checkpoints");
  std::vector<std::string> manifests;
  for (const std::string& name : names) manifests.push_back(read_file(run / "checkpoints" / name / "manifest.json"));
  const auto refused = [&] {
    const Result r = partita(train_command(1, run, {"--train.steps=14", "--checkpoint.keep_last=1"}));
    EXPECT_EQ(r.code, 1) << r.error;
    EXPECT_EQ(read_file(run / "metrics.jsonl"), before);
    EXPECT_EQ(names_in(run / "checkpoints"), names);
    return r.error;
  };
  for (const std::string& name : names) flip(run / "checkpoints" / name / "manifest.json", 40);
  EXPECT_THAT(refused(), HasSubstr("no checkpoint in"));
  // The newest is of a newer version: it is not passed over for an older one.
  for (size_t i = 0; i < names.size(); ++i)
    write_file(run / "checkpoints" / names[i] / "manifest.json",
               i + 1 < names.size() ? manifests[i] : "{\"format\": \"partita checkpoint\", \"version\": 3}");
  EXPECT_THAT(refused(), AllOf(HasSubstr("step-00000012"), HasSubstr("another version of Partita (format 3;")));
  write_file(run / "checkpoints" / names.back() / "manifest.json", manifests.back());
  EXPECT_EQ(partita(train_command(1, run, {"--train.steps=14", "--checkpoint.keep_last=1"})).code, 0);
  EXPECT_EQ(names_in(run / "checkpoints"), std::vector<std::string>{"step-00000014"});
}

TEST(Damage, OfFiguresIsKeptAside) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  make_run(run);
  for (const char* name : {"metrics.jsonl", "validation.jsonl"}) flip(run / name, 3);
  const Result r = partita(train_command(1, run, {"--train.steps=14"}));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, AllOf(HasSubstr("metrics.jsonl.damaged"), HasSubstr("validation.jsonl.damaged")));
  EXPECT_EQ(metrics(run).size(), 13U);
}

TEST(Streams, ThatAreClosedDoNotReachTheRunsFiles) {
  const TemporaryDirectory folder;
  int number = 0;
  for (const char* closed : {">&-", "2>&-", "<&- >&- 2>&-"}) {
    const fs::path run = folder / std::to_string(number++);
    const std::string command =
        fmt::format("exec '{}' train '{}' '{}' {}", PARTITA_PROGRAM, SmallRun::get().config(), run_in(run), closed);
    ASSERT_EQ(Process({"/bin/sh", "-c", command}, {{"OMP_NUM_THREADS", "1"}}).end(seconds(60)).code, 0) << closed;
    EXPECT_EQ(metrics(run).size(), 12U) << closed;
    EXPECT_EQ(partita(train_command(1, run, {"--train.steps=14"})).code, 0) << closed;
  }
}

// A run is worth more than its output.
TEST(Streams, ThatNobodyReadsDoNotEndTheRun) {
  const TemporaryDirectory folder;
  int number = 0;
  // A pipe whose reader has ended, and a disk that is full.
  for (const char* output : {"exec 3> >(true); wait $!", "exec 3> /dev/full"}) {
    const fs::path run = folder / std::to_string(number++);
    const std::string command = fmt::format("{}; exec '{}' train '{}' '{}' >&3", output, PARTITA_PROGRAM,
                                            SmallRun::get().config(), run_in(run));
    const Result r = Process({"/bin/bash", "-c", command}, {{"OMP_NUM_THREADS", "1"}}).end(seconds(60));
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr("cannot write to standard output"));
    EXPECT_EQ(metrics(run).size(), 12U);
  }
  // Of what is only printed, the loss is an error.
  const Result r =
      Process({"/bin/sh", "-c",
               fmt::format("'{}' checkpoint inspect '{}' > /dev/full", PARTITA_PROGRAM, (folder / "0").string())})
          .end(seconds(60));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, HasSubstr("cannot write to standard output: No space left on device"));
}

TEST(Signals, AHangUpSavesUnlessItIsIgnored) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  {
    Process process(long_run(1, run), {{"OMP_NUM_THREADS", "1"}});
    ASSERT_TRUE(process.until([&] { return has_steps(process, 2); }, seconds(60))) << process.seen().error;
    kill(process.pid(), SIGHUP);
    EXPECT_EQ(process.end(seconds(30)).code, 75);
    EXPECT_TRUE(fs::exists(run / "checkpoints" / fmt::format("step-{:08d}", metrics(run).size())));
  }
  std::vector<std::string> command = long_run(1, run);
  command.insert(command.begin(), "nohup");
  Process process(command, {{"OMP_NUM_THREADS", "1"}});
  const auto steps = static_cast<int>(metrics(run).size());
  ASSERT_TRUE(process.until([&] { return has_steps(process, steps + 1); }, seconds(60))) << process.seen().error;
  kill(process.pid(), SIGHUP);
  ASSERT_TRUE(process.until([&] { return has_steps(process, steps + 5); }, seconds(60))) << "it goes on";
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.end(seconds(30)).code, 75);
}

TEST(Signals, ASecondCtrlCEndsAtOnce) {
  const TemporaryDirectory folder;
  // Steps so long that the first is not done in the time of the test.
  Process process(command_line(train_command(
                      1, folder / "run", {"--train.global_batch=200000", "--eval.every=0", "--data.split=100,0,0"})),
                  {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(
      process.until([&] { return process.seen().output.find("Running training") != std::string::npos; }, seconds(60)))
      << process.seen().error;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(process.pid(), SIGINT);
  ASSERT_TRUE(process.until([&] { return process.seen().error.find("Ctrl-C again stops now") != std::string::npos; },
                            seconds(20)));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.end(seconds(20)).code, 130);
}

// Other commands leave nothing half written.
TEST(Signals, EndCommandsThatWriteFilesWithoutLeavingAny) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "out");
  ASSERT_EQ(::mkfifo((folder / "text.jsonl").c_str(), 0666), 0);
  // Its input neither comes nor ends.
  Process process({"/bin/sh", "-c",
                   fmt::format("exec '{}' tokenize --input - --tokenizer '{}' --output-prefix '{}' 0<> '{}'",
                               PARTITA_PROGRAM, SmallRun::get().tokenizer().string(), (folder / "out/tokens").string(),
                               (folder / "text.jsonl").string())});
  ASSERT_TRUE(process.until([&] { return !fs::is_empty(folder / "out"); }, seconds(60))) << process.seen().error;
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.end(seconds(20)).code, 130);
  EXPECT_TRUE(fs::is_empty(folder / "out")) << names_in(folder / "out").front();
}

TEST(Limits, OnFileSizesAreAnErrorThatNamesThem) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::string command =
      fmt::format("ulimit -f 100; exec '{}' train '{}' '{}'", PARTITA_PROGRAM, SmallRun::get().config(), run_in(run));
  const Result r = Process({"/bin/sh", "-c", command}, {{"OMP_NUM_THREADS", "1"}}).end(seconds(60));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, AllOf(HasSubstr("rank-00000.safetensors"), HasSubstr("ulimit -f")));
  EXPECT_EQ(partita(train_command(1, run)).code, 0);
  EXPECT_EQ(metrics(run).size(), 12U);
}

// Neither the lock nor the folders above that were made for it.
TEST(Export, LeavesNothingWhereItFails) {
  const TemporaryDirectory folder;
  make_run(folder / "run");
  const fs::path out = folder / "new/deep/out";
  const Result full = Process({"/bin/sh", "-c",
                               fmt::format("ulimit -f 10; exec '{}' export '{}' '{}'", PARTITA_PROGRAM,
                                           (folder / "run").string(), out.string())})
                          .end(seconds(60));
  EXPECT_EQ(full.code, 1) << full.error;
  EXPECT_THAT(full.error, HasSubstr("ulimit -f"));
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(Export, IntoOneFolderTwiceAtOnce) {
  const TemporaryDirectory folder;
  make_run(folder / "run");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const fs::path out = folder / "out" / std::to_string(attempt);
    const auto command = command_line({"export", (folder / "run").string(), out.string()});
    Process first(command), second(command);
    const Result a = first.end(seconds(60)), b = second.end(seconds(60));
    EXPECT_EQ(a.code + b.code, 1) << a.error << b.error;
    EXPECT_THAT(a.error + b.error, testing::AnyOf(HasSubstr("is in use by process"), HasSubstr("already exists")));
    EXPECT_EQ(names_in(folder / "out").size(), static_cast<size_t>(attempt) + 1) << "no lock, no partial folder";
    EXPECT_EQ(partita({"eval", out.string(), "--data", SmallRun::get().prefix().string(), "--batches", "1"}).code, 0);
  }
}

}  // namespace
}  // namespace partita::internal::test
