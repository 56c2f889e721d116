// partita checkpoint list, diff, prune and convert, as a user calls them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result checkpoint(const char* command, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"checkpoint", command});
  return partita(std::move(arguments));
}

fs::path step_folder(const fs::path& run, int step) { return run / fmt::format("checkpoints/step-{:08d}", step); }

void cut_short(const fs::path& checkpoint_folder) {
  fs::resize_file(checkpoint_folder / "rank-00000.safetensors", 100);
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

class CheckpointCommand : public testing::Test {
 protected:
  void SetUp() override { make_run(run_); }

  TemporaryDirectory folder_;
  fs::path run_ = folder_ / "run";  // with the checkpoints 4, 8 and 12
};

TEST_F(CheckpointCommand, ListShowsTheStateOfEach) {
  cut_short(step_folder(run_, 8));
  fs::rename(step_folder(run_, 4), run_ / "checkpoints/step-00000004.damaged");
  fs::create_directory(run_ / "checkpoints/step-00000016.partial");
  const Result text = checkpoint("list", {run_.string()});
  ASSERT_EQ(text.code, 0) << text.error;
  EXPECT_EQ(text.error, "");
  std::vector<std::string> states;
  std::istringstream in(text.output);
  for (std::string line; std::getline(in, line);) states.push_back(line.substr(0, line.find(' ')));
  EXPECT_THAT(states, ElementsAre("checkpoint", "step-00000004.damaged", "step-00000008", "step-00000012",
                                  "step-00000016.partial"));
  EXPECT_THAT(text.output, AllOf(HasSubstr("  set aside\n"), HasSubstr("  damaged: "), HasSubstr("instead of"),
                                 HasSubstr("  complete\n"), HasSubstr("  partial\n")));

  const Result lines = checkpoint("list", {(run_ / "checkpoints").string(), "--json"});
  ASSERT_EQ(lines.code, 0) << lines.error;
  const std::vector<json> all = lines_of(lines.output);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[2]["name"], "step-00000012");
  EXPECT_EQ(all[2]["step"], 12);
  EXPECT_EQ(all[2]["state"], "complete");
  EXPECT_EQ(all[2]["ranks"], 1);
  EXPECT_EQ(all[2]["bytes"], fs::file_size(step_folder(run_, 12) / "rank-00000.safetensors") +
                                 fs::file_size(step_folder(run_, 12) / "manifest.json"));
  EXPECT_EQ(all[1]["state"], "damaged");
  EXPECT_THAT(all[1]["problem"].get<std::string>(), HasSubstr("rank-00000.safetensors"));

  const Result nowhere = checkpoint("list", {(folder_ / "nowhere").string()});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.error, HasSubstr("there is no such folder"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(checkpoint("list", {(folder_ / "empty").string()}).output, HasSubstr("no checkpoints in"));
}

TEST_F(CheckpointCommand, DiffTellsByItsExitCode) {
  const std::string last = step_folder(run_, 12).string(), before = step_folder(run_, 8).string();
  const Result same = checkpoint("diff", {run_.string(), last});
  EXPECT_EQ(same.code, 0) << same.error;
  EXPECT_THAT(same.output, AllOf(HasSubstr("A: " + last), HasSubstr("\nequal: ")));

  const Result other = checkpoint("diff", {before, last});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.error, "");
  EXPECT_THAT(other.output, AllOf(HasSubstr("model/final_norm.weight: "), HasSubstr("elements differ, by at most"),
                                  HasSubstr("step: 8 and 12\n"), HasSubstr("\ndifferent: ")));
  const Result some = checkpoint("diff", {before, last, "--only", "adamw.m/final_norm", "--tolerance", "1"});
  EXPECT_THAT(some.output,
              AllOf(HasSubstr("adamw.m/final_norm.weight"), Not(HasSubstr("adamw.v")), Not(HasSubstr("step: "))));
  EXPECT_EQ(checkpoint("diff", {before, last, "--only", "model/final_norm.weight", "--tolerance", "0.1"}).code, 0);

  const Result none = checkpoint("diff", {before, last, "--only", "weights/"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.error, HasSubstr("no tensor in"));
  EXPECT_EQ(checkpoint("diff", {last}).code, 2);
  EXPECT_EQ(checkpoint("diff", {before, last, "--tolerance", "-1"}).code, 2);
  cut_short(last);
  const Result damaged = checkpoint("diff", {before, last});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.error, HasSubstr("is damaged"));
}

TEST_F(CheckpointCommand, PruneKeepsWhatItSays) {
  const fs::path partial = run_ / "checkpoints/step-00000016.partial";
  fs::create_directory(partial);
  write_file(partial / "rank-00000.safetensors", "half of it");
  const auto names = names_in(run_ / "checkpoints");
  const Result dry =
      checkpoint("prune", {run_.string(), "--keep-last", "1", "--keep-every", "8", "--dry-run", "--partial"});
  EXPECT_EQ(dry.code, 0) << dry.error;
  EXPECT_THAT(dry.output,
              AllOf(HasSubstr("would remove step-00000004, "), HasSubstr("would remove step-00000016.partial"),
                    HasSubstr("would remove 1 of 3 complete checkpoints; ")));
  EXPECT_EQ(names_in(run_ / "checkpoints"), names);

  const Result kept = checkpoint("prune", {run_.string(), "--keep-last", "1", "--keep-every", "8"});
  EXPECT_EQ(kept.code, 0) << kept.error;
  EXPECT_THAT(names_in(run_ / "checkpoints"), ElementsAre("step-00000008", "step-00000012", "step-00000016.partial"));
  EXPECT_FALSE(fs::exists(run_ / "run.lock"));

  // The newest folder is damaged: the newest that can be used stays, and so does the damaged one.
  cut_short(step_folder(run_, 12));
  const Result damaged = checkpoint("prune", {run_.string(), "--keep-last", "1", "--partial"});
  EXPECT_EQ(damaged.code, 0) << damaged.error;
  EXPECT_THAT(damaged.error, HasSubstr("warning: step-00000012 is damaged: neither counted nor removed"));
  EXPECT_THAT(names_in(run_ / "checkpoints"), ElementsAre("step-00000008", "step-00000012"));

  EXPECT_EQ(checkpoint("prune", {run_.string()}).code, 2);
  EXPECT_EQ(checkpoint("prune", {run_.string(), "--keep-last", "0"}).code, 2);
  const Result nowhere = checkpoint("prune", {(folder_ / "nowhere").string(), "--keep-last", "1"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.error, HasSubstr("is not the folder of a run"));
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
}

TEST_F(CheckpointCommand, PruneLeavesARunThatIsTrainingAlone) {
  std::vector<std::string> command = long_run(1, run_);
  command.emplace_back("--checkpoint.every=0");
  Process training(command);
  ASSERT_TRUE(training.until([&] { return has_steps(training, 20); }, std::chrono::seconds(60)))
      << training.seen().error;
  const auto names = names_in(run_ / "checkpoints");
  const Result refused = checkpoint("prune", {run_.string(), "--keep-last", "1"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error,
              AllOf(HasSubstr("is in use by process " + std::to_string(training.pid())), HasSubstr("use --dry-run")));
  EXPECT_EQ(checkpoint("prune", {run_.string(), "--keep-last", "1", "--dry-run"}).code, 0);
  EXPECT_EQ(names_in(run_ / "checkpoints"), names);
  EXPECT_TRUE(fs::exists(run_ / "run.lock"));
}

// The run goes on from what was converted as from what it saved itself.
TEST_F(CheckpointCommand, ConvertedOnesAreResumedFrom) {
  const fs::path converted = folder_ / "converted/step-00000008";
  const Result r = checkpoint("convert", {step_folder(run_, 8).string(), converted.string(), "--ranks", "3"});
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_EQ(r.output, converted.string() + "\n");
  EXPECT_THAT(names_in(converted), ElementsAre("manifest.json", "rank-00000.safetensors", "rank-00001.safetensors",
                                               "rank-00002.safetensors"));
  EXPECT_EQ(checkpoint("verify", {converted.string()}).code, 0);
  EXPECT_EQ(checkpoint("diff", {step_folder(run_, 8).string(), converted.string()}).code, 0);
  const Result on = partita(train_command(1, folder_ / "on", {"--checkpoint.resume=" + converted.string()}));
  ASSERT_EQ(on.code, 0) << on.error;
  EXPECT_EQ(checkpoint("diff", {run_.string(), (folder_ / "on").string()}).code, 0);

  const Result again = checkpoint("convert", {step_folder(run_, 8).string(), converted.string()});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.error, HasSubstr("not empty"));
  EXPECT_EQ(checkpoint("convert", {run_.string(), (folder_ / "x").string(), "--states", "fp16"}).code, 2);
  EXPECT_EQ(checkpoint("convert", {run_.string(), (folder_ / "x").string(), "--ranks", "0"}).code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "x"));
}

TEST_F(CheckpointCommand, WeightsAloneAreForAllButResuming) {
  const std::string weights = (folder_ / "weights").string();
  ASSERT_EQ(checkpoint("convert", {run_.string(), weights, "--weights-only", "--states", "bf16"}).code, 0);
  const Result inspected = checkpoint("inspect", {weights});
  EXPECT_THAT(inspected.output, AllOf(HasSubstr("model/final_norm.weight"), HasSubstr("bf16"), Not(HasSubstr("adamw")),
                                      Not(HasSubstr("fp32"))));
  const Result evaluated = partita({"eval", weights, "--data", SmallRun::get().prefix().string(), "--batches", "1"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.error;
  const Result resumed =
      partita(train_command(1, folder_ / "on", {"--checkpoint.resume=" + weights, "--train.steps=16"}));
  EXPECT_EQ(resumed.code, 1);
  EXPECT_THAT(resumed.error, HasSubstr("missing from it: adamw.m/"));
  const Result from = partita(train_command(1, folder_ / "from", {"--model.from=" + weights, "--train.steps=2"}));
  EXPECT_EQ(from.code, 0) << from.error;
}

}  // namespace
}  // namespace partita::internal::test
