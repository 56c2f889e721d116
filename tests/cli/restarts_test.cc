// launch --restarts, and checkpoints in memory: whatever ends the ranks, the run ends as one that nothing has ended.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kSteps = 900;  // some seconds

std::string words_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The ranks that mpirun, a child of `launcher`, has started.
std::vector<pid_t> ranks_of(pid_t launcher) {
  const auto children = [](pid_t process) {
    std::istringstream list(words_of(fmt::format("/proc/{0}/task/{0}/children", process)));
    return std::vector<pid_t>(std::istream_iterator<pid_t>(list), {});
  };
  std::vector<pid_t> ranks;
  for (const pid_t mpirun : children(launcher))
    for (const pid_t child : children(mpirun))
      if (words_of(fmt::format("/proc/{}/comm", child)) == "partita\n") ranks.push_back(child);
  return ranks;
}

// The launcher's folder in memory, from the environment of a rank.
fs::path memory_of(pid_t launcher) {
  for (const pid_t rank : ranks_of(launcher)) {
    const std::string all = words_of(fmt::format("/proc/{}/environ", rank)), name = "PARTITA_MEMORY_FOLDER=";
    if (const size_t at = all.find(name); at != all.npos) return all.c_str() + at + name.size();
  }
  return {};
}

std::vector<std::string> run_command(const fs::path& run, int restarts, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {"launch", "-n", "2", "--restarts", std::to_string(restarts), "--"};
  for (const std::string& word :
       {std::string("train"), SmallRun::get().config(), run_in(run), fmt::format("--train.steps={}", kSteps),
        std::string("--eval.every=0"), std::string("--checkpoint.every=0"), std::string("--log.every=1")})
    command.push_back(word);
  command.insert(command.end(), more.begin(), more.end());
  return command_line(command);
}

std::string manifest(const fs::path& run) {
  return words_of(run / "checkpoints" / fmt::format("step-{:08}", kSteps) / "manifest.json");
}

class Restarts : public testing::Test {
 protected:
  // A run that nothing ends.
  static void SetUpTestSuite() {
    folder_ = new TemporaryDirectory();
    const Result r = Process(run_command(undisturbed(), 0), {{"OMP_NUM_THREADS", "1"}}).end(seconds(120));
    ASSERT_EQ(r.code, 0) << r.error;
  }
  static void TearDownTestSuite() { delete folder_; }
  static fs::path undisturbed() { return *folder_ / "undisturbed"; }

  void begin(int restarts, const std::vector<std::string>& more = {}) {
    process_.emplace(run_command(run(), restarts, more), std::map<std::string, std::string>{{"OMP_NUM_THREADS", "1"}});
  }
  [[nodiscard]] static fs::path run() {
    return *folder_ / testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  // Until rank 0 has logged this step.
  void reach(int step) {
    ASSERT_TRUE(process_->until([&] { return has_steps(*process_, step); }, seconds(120))) << process_->seen().error;
    if (memory_.empty()) memory_ = memory_of(process_->pid());
    ASSERT_FALSE(memory_.empty());
    ASSERT_TRUE(fs::exists(memory_));
  }
  void kill_rank(size_t rank) {
    const std::vector<pid_t> ranks = ranks_of(process_->pid());
    ASSERT_EQ(ranks.size(), 2U);
    kill(ranks[rank], SIGKILL);
  }
  void end_as_undisturbed() {
    const Result r = process_->end(seconds(120));
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_EQ(metrics(run()), metrics(undisturbed()));
    EXPECT_EQ(manifest(run()), manifest(undisturbed()));
    EXPECT_FALSE(fs::exists(memory_)) << memory_;
  }
  [[nodiscard]] const std::string& said() const { return process_->seen().error; }
  // How often a start has said this.
  [[nodiscard]] int count(const std::string& text) const {
    int found = 0;
    for (size_t at = said().find(text); at != std::string::npos; at = said().find(text, at + 1)) ++found;
    return found;
  }

  static inline TemporaryDirectory* folder_ = nullptr;
  std::optional<Process> process_;
  fs::path memory_;
};

TEST_F(Restarts, OfKilledRanksResumeFromMemory) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  begin(4, {"--checkpoint.memory_every=7"});
  for (int kills = 1; kills <= 3; ++kills) {
    reach(static_cast<int>(kills * 200 + random() % 60));
    kill_rank(random() % 2);
    ASSERT_TRUE(process_->until([&] { return count("resuming from step ") == kills; }, seconds(60))) << said();
  }
  end_as_undisturbed();
  EXPECT_EQ(count(": restart "), 3) << said();
  EXPECT_THAT(said(),
              AllOf(HasSubstr("was ended by signal 9 (SIGKILL: out of memory, or kill -9), so all ranks were "
                              "stopped: restart 1 of 4"),
                    HasSubstr(fmt::format(" in memory ({}/", memory_.string())), HasSubstr("kept step 7 in memory")));
  EXPECT_FALSE(fs::exists(run() / "lineage.json"));
}

TEST_F(Restarts, TakeTheNewerCheckpointOfDiskAndMemory) {
  begin(1, {"--checkpoint.memory_every=390", "--checkpoint.every=400", "--checkpoint.background=false"});
  reach(405);
  kill_rank(1);
  end_as_undisturbed();
  EXPECT_THAT(said(), AllOf(HasSubstr("resuming from " + (run() / "checkpoints" / "step-00000400").string()),
                            Not(HasSubstr("resuming from step"))));
}

// A byte that has changed: its checksum shows it, and the run goes back to the disk, or to its first step.
TEST_F(Restarts, WithDamagedMemoryResumeFromDisk) {
  for (const bool on_disk : {true, false}) {
    fs::remove_all(run());
    memory_.clear();
    begin(1, {"--checkpoint.memory_every=300", on_disk ? "--checkpoint.every=290" : "--checkpoint.every=0",
              "--checkpoint.background=false"});
    reach(305);
    for (const auto& entry : fs::recursive_directory_iterator(memory_))
      if (entry.path().extension() == ".safetensors") {
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(-1, std::ios::end);
        const auto byte = static_cast<char>(file.get() ^ 1);
        file.seekp(-1, std::ios::end);
        file.put(byte);
      }
    kill_rank(0);
    end_as_undisturbed();
    EXPECT_THAT(said(), AllOf(HasSubstr("this checkpoint was in memory: it is removed"), HasSubstr(": restart 1 of 1"),
                              Not(HasSubstr("resuming from step"))));
    EXPECT_EQ(count("resuming from " + (run() / "checkpoints" / "step-00000290").string()), on_disk ? 1 : 0) << said();
    for (const std::string& name : names_in(run() / "checkpoints")) EXPECT_THAT(name, Not(HasSubstr("damaged")));
  }
}

// A file in the place of the run's folder in memory: no checkpoint can be made there, nor read.
TEST_F(Restarts, GoOnWithoutMemory) {
  begin(1, {"--checkpoint.memory_every=50", "--checkpoint.every=300", "--checkpoint.background=false"});
  reach(60);
  for (const std::string& name : names_in(memory_))
    if (fs::is_directory(memory_ / name)) {
      // At the moment of a save, its folder appears again.
      while (!fs::is_regular_file(memory_ / name)) {
        fs::remove_all(memory_ / name);
        std::ofstream(memory_ / name) << "x";
      }
    }
  reach(305);
  kill_rank(1);
  end_as_undisturbed();
  EXPECT_THAT(said(), AllOf(HasSubstr("the checkpoint in memory was not made, and training goes on: "),
                            HasSubstr("checkpoints in memory are not looked at: "),
                            HasSubstr("resuming from " + (run() / "checkpoints" / "step-00000300").string())));
}

TEST_F(Restarts, GoOnIfMpirunIsKilled) {
  begin(1, {"--checkpoint.memory_every=50"});
  reach(120);
  const std::vector<pid_t> ranks = ranks_of(process_->pid());
  ASSERT_EQ(ranks.size(), 2U);
  std::istringstream stat(words_of(fmt::format("/proc/{}/stat", ranks[0])));
  std::string number, name, state;
  pid_t mpirun = 0;
  stat >> number >> name >> state >> mpirun;
  kill(mpirun, SIGKILL);
  end_as_undisturbed();
  EXPECT_THAT(said(), AllOf(HasSubstr("mpirun was ended by signal 9"), HasSubstr("resuming from step ")));
}

TEST_F(Restarts, DoNotFollowCtrlC) {
  begin(3, {"--checkpoint.memory_every=50"});
  reach(60);
  kill(process_->pid(), SIGINT);
  EXPECT_EQ(process_->end(seconds(60)).code, 75) << said();
  EXPECT_EQ(count(": restart "), 0) << said();
  EXPECT_FALSE(fs::exists(memory_));
  // Nor a second one, which ends the ranks.
  memory_.clear();
  begin(3);
  reach(300);
  kill(process_->pid(), SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  kill(process_->pid(), SIGINT);
  EXPECT_THAT(process_->end(seconds(60)).code, testing::AnyOf(75, 1, 130)) << said();
  EXPECT_EQ(count(": restart "), 0) << said();
}

TEST_F(Restarts, WhatAKilledLauncherLeavesIsRemovedByTheNext) {
  begin(3, {"--checkpoint.memory_every=50"});
  reach(60);
  EXPECT_EQ(fs::status(memory_).permissions(), fs::perms::owner_all);
  kill(process_->pid(), SIGKILL);
  (void)process_->end(seconds(60));
  ASSERT_TRUE(fs::exists(memory_));
  // mpirun holds it, too, and ends soon.
  for (int i = 0; i < 50 && fs::exists(memory_); ++i) {
    EXPECT_EQ(partita({"launch", "-n", "1", "--", "/bin/true"}).code, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_FALSE(fs::exists(memory_));
}

TEST_F(Restarts, EndWithoutProgress) {
  // An error at the same step each time: a loss scale that overflows and must not become lower.
  begin(9, {"--precision.compute=fp16", "--loss_scale.initial=16777216", "--loss_scale.lowest=8388608"});
  const Result r = process_->end(seconds(120));
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(count(": restart "), 2) << r.error;
  EXPECT_THAT(r.error, AllOf(HasSubstr("the gradients overflow fp16 at the lowest scale"),
                             HasSubstr("not started again: no progress, since two restarts in a row")));
}

TEST(RestartsOfPrograms, ByHowTheyEnd) {
  const auto launch = [](const std::string& script, int restarts = 2) {
    return partita({"launch", "-n", "1", "--restarts", std::to_string(restarts), "--", "/bin/sh", "-c", script});
  };
  const TemporaryDirectory folder;
  const std::string count = fmt::format("echo >> {}; ", (folder / "starts").string());
  const auto starts = [&] {
    const std::string lines = words_of(folder / "starts");
    fs::remove(folder / "starts");
    return lines.size();
  };
  const Result killed = launch(count + "kill -9 $$");
  EXPECT_EQ(killed.code, 1);
  EXPECT_EQ(starts(), 3U);
  EXPECT_THAT(killed.error, HasSubstr("so all ranks were stopped; not started again: all 2 restarts were made"));
  // Ends well at the third start.
  EXPECT_EQ(launch(count + fmt::format("[ $(wc -l < {}) = 3 ] || kill -9 $$", (folder / "starts").string())).code, 0);
  EXPECT_EQ(starts(), 3U);
  for (const auto& [end, code] : {std::pair("exit 0", 0), {"exit 2", 2}, {"exit 75", 75}, {"exit 130", 1}}) {
    EXPECT_EQ(launch(count + end).code, code) << end;
    EXPECT_EQ(starts(), 1U) << end;
  }
  const Result error = launch(count + "exit 3");
  EXPECT_EQ(error.code, 1);
  EXPECT_EQ(starts(), 1U);
  EXPECT_THAT(error.error, HasSubstr("failed (exit code 3, see above); all ranks were stopped; not started again: no "
                                     "step was complete"));
  const Result without = launch(count + "kill -9 $$", 0);
  EXPECT_EQ(without.code, 1);
  EXPECT_EQ(starts(), 1U);
  EXPECT_THAT(without.error, Not(HasSubstr("not started again")));
}

// A process that has lost its mpirun and does not end by itself is ended before the next start.
TEST(RestartsOfPrograms, BeginWhenTheOldProcessesAreGone) {
  const TemporaryDirectory folder;
  const std::string script = fmt::format(
      "cd '{}'; if [ -e first ]; then kill -0 $(cat first) && touch both; exit 0; fi; echo $$ > first; kill -9 $PPID; "
      "sleep 100 & wait",
      folder.path().string());
  const Result r = partita({"launch", "-n", "1", "--restarts", "1", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("mpirun was ended by signal 9"));
  EXPECT_TRUE(fs::exists(folder / "first"));
  EXPECT_FALSE(fs::exists(folder / "both"));
}

// Who has asked for the end does not want another start, however the ranks end.
TEST(RestartsOfPrograms, NotAfterCtrlC) {
  const TemporaryDirectory folder;
  const std::string script =
      fmt::format("trap '' USR1; echo >> '{}'; sleep 2; kill -9 $$", (folder / "starts").string());
  Process process(command_line({"launch", "-n", "1", "--restarts", "5", "--", "/bin/sh", "-c", script}));
  ASSERT_TRUE(process.until([&] { return fs::exists(folder / "starts"); }, seconds(30)));
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.end(seconds(60)).code, 1);
  EXPECT_EQ(words_of(folder / "starts").size(), 1U);
  EXPECT_THAT(process.seen().error, AllOf(HasSubstr("was ended by signal 9"), Not(HasSubstr(": restart "))));
}

TEST(RestartsOfCommands, AreForTraining) {
  const TemporaryDirectory folder;
  const Result eval = partita({"launch", "-n", "2", "--restarts=1", "--", "eval", "x", "--data", "y"});
  EXPECT_EQ(eval.code, 2);
  EXPECT_THAT(eval.error, HasSubstr("--restarts is for train and programs of your own, not for 'eval'"));
  // An error of the configuration, and of the command line.
  std::vector<std::string> wrong = {"launch", "-n", "2", "--restarts=3", "--", "train", SmallRun::get().config()};
  wrong.push_back(run_in(folder / "run"));
  wrong.push_back("--train.global_batch=7");
  const Result config = partita(wrong);
  EXPECT_EQ(config.code, 1);
  EXPECT_THAT(config.error, AllOf(HasSubstr("no step was complete"), Not(HasSubstr(": restart "))));
  wrong.back() = "--train.nothing=7";
  EXPECT_EQ(partita(wrong).code, 2);
}

TEST(MemoryEvery, HasNoEffectWithoutRestarts) {
  const TemporaryDirectory folder;
  for (const int ranks : {1, 2}) {
    const Result r = partita(train_command(ranks, folder / std::to_string(ranks), {"--checkpoint.memory_every=5"}));
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr("checkpoint.memory_every has no effect here"));
  }
  const Result negative = partita(train_command(1, folder / "run", {"--checkpoint.memory_every=-1"}));
  EXPECT_EQ(negative.code, 2);
  EXPECT_THAT(negative.error, HasSubstr("checkpoint.memory_every"));
}

}  // namespace
}  // namespace partita::internal::test
