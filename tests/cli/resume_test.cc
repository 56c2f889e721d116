// A new start resumes where the last one stopped, or at the checkpoint that is named, and survives damaged files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void flip(const fs::path& file, size_t byte) {
  std::string content = read_file(file);
  content[byte] = static_cast<char>(content[byte] ^ 1);
  write_file(file, content);
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
               i + 1 < names.size() ? manifests[i] : "{\"format\": \"partita checkpoint\", \"version\": 4}");
  EXPECT_THAT(refused(), AllOf(HasSubstr("step-00000012"), HasSubstr("another version of Partita (format 4;")));
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

}  // namespace
}  // namespace partita::internal::test
