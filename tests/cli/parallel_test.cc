// Tensor, context and pipeline parallelism in whole runs: the same run on every layout, checkpoints that any layout
// continues, and errors.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Two heads of four channels and one key/value head each, which the two tensor-parallel ranks share.
const std::vector<std::string> kLlama = {"--model.kind=llama", "--model.kv_heads=1", "--model.head_width=14"};

std::vector<std::string> settings(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

TEST(TensorParallelRuns, AreTheSameOnEveryLayout) {
  const TemporaryDirectory folder;
  for (const std::vector<std::string>& model : {std::vector<std::string>{}, kLlama}) {
    const std::filesystem::path one = folder / fmt::format("one-{}", model.size());
    ASSERT_EQ(partita(train_command(1, one, model)).code, 0);
    for (const auto& [ranks, stage, sequence] : {std::tuple(2, 0, "false"), std::tuple(4, 3, "auto")}) {
      const std::filesystem::path run = folder / fmt::format("{}-{}-{}", model.size(), ranks, stage);
      const Result r = partita(
          train_command(ranks, run,
                        settings(model, {"--parallel.tensor=2", fmt::format("--parallel.zero_stage={}", stage),
                                         fmt::format("--parallel.sequence={}", sequence), "--debug.poison=true"})));
      ASSERT_EQ(r.code, 0) << r.error;
      expect_same_run(run, one, 1e-4);
    }
  }
}

// Stages of one, two and three layers; with the embedding, the head, and a table that two ranks hold.
TEST(PipelineRuns, AreTheSameOnEveryLayout) {
  const TemporaryDirectory folder;
  const std::filesystem::path one = folder / "one";
  ASSERT_EQ(partita(train_command(1, one)).code, 0);
  int number = 0;
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"3", "--parallel.pipeline=3"},
        {"4", "--parallel.pipeline=2", "--parallel.tensor=2", "--parallel.schedule=gpipe", "--parallel.zero_stage=1"},
        {"4", "--parallel.pipeline=2", "--parallel.zero_stage=3", "--train.micro_batch=1"},
        {"2", "--parallel.pipeline=1", "--parallel.tensor=2"}}) {
    const std::filesystem::path run = folder / std::to_string(++number);
    const Result r = partita(train_command(std::stoi(layout[0]), run, {layout.begin() + 1, layout.end()}));
    ASSERT_EQ(r.code, 0) << r.error;
    expect_same_run(run, one, 1e-4);
  }
}

// Validation and checkpoints between: 12 steps, evaluated every 6, saved every 4.
TEST(ContextParallelRuns, AreTheSameOnEveryLayout) {
  const TemporaryDirectory folder;
  for (const std::vector<std::string>& model : {std::vector<std::string>{}, kLlama}) {
    const std::filesystem::path one = folder / fmt::format("one-{}", model.size());
    ASSERT_EQ(partita(train_command(1, one, settings(model, {"--data.separate_documents=true"}))).code, 0);
    int number = 0;
    for (const std::vector<std::string>& layout :
         {std::vector<std::string>{"2", "--parallel.context=2", "--memory.recompute=full"},
          {"4", "--parallel.context=4", "--parallel.zero_stage=1"},
          {"4", "--parallel.context=2", "--parallel.tensor=2", "--parallel.zero_stage=3"},
          {"4", "--parallel.context=2", "--parallel.zero_stage=3", "--debug.poison=true"},
          {"4", "--parallel.context=2", "--parallel.pipeline=2", "--parallel.zero_stage=2"}}) {
      if (++number % 2 == static_cast<int>(model.size()) % 2) continue;  // each with one of the models
      const std::filesystem::path run = folder / fmt::format("{}-{}", model.size(), number);
      const Result r = partita(train_command(
          std::stoi(layout[0]), run,
          settings(settings(model, {"--data.separate_documents=true"}), {layout.begin() + 1, layout.end()})));
      ASSERT_EQ(r.code, 0) << r.error;
      expect_same_run(run, one, 1e-4);
    }
  }
}

// Messages that leave up to half a millisecond late, and poison in what is free, change no bit.
TEST(LateMessages, ChangeNoBit) {
  const TemporaryDirectory folder;
  int number = 0;
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"4", "--parallel.tensor=2", "--parallel.pipeline=2", "--parallel.schedule=zbv",
                                 "--memory.recompute=full", "--model.layers=4"},
        {"4", "--parallel.context=2", "--parallel.pipeline=2", "--parallel.schedule=interleaved",
         "--parallel.zero_stage=3", "--model.layers=4"}}) {
    std::vector<std::string> options(layout.begin() + 1, layout.end());
    options.insert(options.end(), {"--train.steps=4", "--train.micro_batch=1", "--checkpoint.every=2"});
    const std::filesystem::path plain = folder / fmt::format("{}-plain", ++number),
                                late = folder / fmt::format("{}-late", number);
    const Result on_time = partita(train_command(std::stoi(layout[0]), plain, options));
    ASSERT_EQ(on_time.code, 0) << on_time.error;
    options.insert(options.end(), {"--debug.delay_streams=500", "--debug.poison=true"});
    const Result r = partita(train_command(std::stoi(layout[0]), late, options));
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_EQ(metrics(late), metrics(plain)) << layout[1];
    const auto manifest = [](const std::filesystem::path& run) {
      return read_file(run / "checkpoints" / "step-00000004" / "manifest.json");
    };
    EXPECT_EQ(manifest(late), manifest(plain)) << layout[1];
  }
}

double evaluated(const std::filesystem::path& run) {
  const Result r =
      partita({"eval", run.string(), "--data", SmallRun::get().prefix().string(), "--batches", "4", "--json"});
  EXPECT_EQ(r.code, 0) << r.error;
  return nlohmann::json::parse(r.output).at("loss");
}

// Tensor parallel, then data parallel, then alone, from one checkpoint to the next: the run of one process. Its weights
// evaluate, and export to Hugging Face's format, as if one process had trained them.
TEST(TensorParallelRuns, ContinueOnOtherLayouts) {
  const TemporaryDirectory folder;
  const std::filesystem::path one = folder / "one", run = folder / "run", exported = folder / "exported";
  ASSERT_EQ(partita(train_command(1, one, kLlama)).code, 0);
  const auto go_on = [&](int ranks, int steps, const std::vector<std::string>& more) {
    const Result r = partita(train_command(
        ranks, run, settings(settings(kLlama, more), {fmt::format("--train.steps={}", steps), "--schedule.decay=12"})));
    ASSERT_EQ(r.code, 0) << r.error;
  };
  go_on(4, 4, {"--parallel.tensor=2", "--parallel.zero_stage=3"});
  go_on(3, 8, {"--parallel.zero_stage=1"});
  go_on(4, 10, {"--parallel.tensor=2", "--parallel.pipeline=2", "--parallel.zero_stage=1"});
  go_on(4, 11, {"--parallel.tensor=2", "--parallel.context=2", "--parallel.zero_stage=2"});
  go_on(1, 12, {});
  expect_same_run(run, one, 1e-4);
  EXPECT_NEAR(evaluated(run), evaluated(one), 1e-5);
  const Result r = partita({"export", run.string(), exported.string()});
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_NEAR(evaluated(exported), evaluated(one), 1e-5);
}

// fp8 with scales of earlier steps: they are the model's in a checkpoint, whichever ranks have measured them.
TEST(TensorParallelRuns, ContinueWithTheirFp8Scales) {
  const TemporaryDirectory folder;
  const std::vector<std::string> fp8 = {
      "--model.kind=llama",       "--model.hidden_size=32",  "--model.heads=4",
      "--model.kv_heads=2",       "--model.head_width=16",   "--model.ffn_hidden_size=64",
      "--precision.compute=bf16", "--precision.fp8=delayed", "--schedule.decay=12"};
  const auto train = [&](const std::filesystem::path& run, int ranks, int steps, const std::vector<std::string>& more) {
    const Result r =
        partita(train_command(ranks, run, settings(settings(fp8, more), {fmt::format("--train.steps={}", steps)})));
    ASSERT_EQ(r.code, 0) << r.error;
  };
  const std::vector<std::string> all = {"--parallel.tensor=2", "--parallel.pipeline=2",
                                        "--parallel.schedule=interleaved", "--model.layers=4"},
                                 tensor = {"--parallel.tensor=2", "--model.layers=4"}, none = {"--model.layers=4"};
  const std::filesystem::path one = folder / "one", whole = folder / "whole", halves = folder / "halves",
                              others = folder / "others";
  train(one, 1, 12, none);
  train(whole, 4, 12, all);
  expect_same_run(whole, one, 0.1);  // the noise of fp8
  train(halves, 4, 4, all);
  train(halves, 4, 12, all);
  expect_same_run(halves, whole, 0);
  train(others, 4, 4, all);
  train(others, 2, 8, tensor);
  train(others, 1, 12, none);
  expect_same_run(others, one, 0.1);
}

TEST(TensorParallelRuns, ErrorsSayWhatToDo) {
  const TemporaryDirectory folder;
  const auto error = [&](int ranks, const std::vector<std::string>& more) {
    const Result r = partita(train_command(ranks, folder / "run", more));
    EXPECT_EQ(r.code, 1);
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
    return r.error;
  };
  EXPECT_THAT(error(3, {"--parallel.tensor=3"}),
              HasSubstr("parallel.tensor is 3, the model has 2 heads: use at most 2"));
  EXPECT_THAT(error(3, {"--parallel.tensor=2"}),
              HasSubstr("the job has 3 ranks: start a multiple of 2 ranks (partita launch -n 2 ...)"));
  EXPECT_THAT(error(3, {"--parallel.context=3"}),
              HasSubstr("train.sequence_length is 32 with parallel.context 3: it must be a multiple of 6 (2 x "
                        "parallel.context): use 30 or 36"));
  // Said by all ranks, named once.
  EXPECT_THAT(error(2, {"--parallel.schedule=zbv"}),
              AllOf(HasSubstr("rank 0: parallel.schedule is zbv without a pipeline: set parallel.pipeline"),
                    Not(HasSubstr("rank 0: rank 0"))));
  // Heads of 8 channels, and 48 channels of the MLP.
  EXPECT_THAT(error(2, {"--parallel.tensor=2", "--precision.compute=bf16", "--precision.fp8=current",
                        "--model.hidden_size=16", "--model.ffn_hidden_size=48"}),
              AllOf(HasSubstr("precision.fp8 is current with parallel.tensor 2"), HasSubstr("no multiple of 16")));
}

TEST(Schedule, ShowsStagesAndTimes) {
  const TemporaryDirectory folder;
  const auto show = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"schedule", SmallRun::get().config(), "--model.layers=8"};
    command.insert(command.end(), more.begin(), more.end());
    return partita(command);
  };
  // 12 samples in micro-batches of 2: six.
  const Result r = show({"--parallel.pipeline=2", "--svg", (folder / "s.svg").string()});
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.output,
              AllOf(HasSubstr("stage 0 on rank 0: embedding, layers 0-"), HasSubstr(", head\n"),
                    HasSubstr("1f1b, 2 pipeline ranks, 6 micro-batches"), HasSubstr("rank 0  F0"),
                    HasSubstr("\nrank 0 holds at most 2 sets of activations (one per stage and micro-batch)\n"),
                    HasSubstr("\nrank 1 holds at most 1 set of activations"), HasSubstr(" forward passes of a layer\n"),
                    HasSubstr(": rank 0 waits longest, ")));
  EXPECT_THAT(read_file(folder / "s.svg"), testing::StartsWith("<svg"));
  for (const char* schedule :
       {"gpipe", "interleaved", "looped_bfs", "zb_h1", "interleaved_zero_bubble", "zbv", "dual_pipe_v"}) {
    const Result other =
        show({"--parallel.pipeline=2", std::string("--parallel.schedule=") + schedule, "--ranks", "4"});
    EXPECT_EQ(other.code, 0) << other.error;
    EXPECT_THAT(other.output, HasSubstr(std::string(schedule) + ", 2 pipeline ranks, 3 micro-batches"));
  }
  EXPECT_THAT(show({"--parallel.pipeline=2", "--parallel.data=2"}).output, HasSubstr("2 pipeline ranks, 3 micro-"))
      << "the smallest job has all ranks that are given";
  EXPECT_THAT(show({}).error, HasSubstr("parallel.pipeline is 1: a pipeline needs at least two ranks"));
  EXPECT_EQ(show({}).code, 1);
  EXPECT_THAT(show({"--parallel.pipeline=2", "--ranks", "3"}).error,
              HasSubstr("parallel.pipeline is 2, the job has 3 ranks: start a multiple of 2 ranks"));
}

// A layout is accepted if, and only if, training accepts it.
TEST(Schedule, RefusesWhatTrainingRefuses) {
  const TemporaryDirectory folder;
  const auto error = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> command = {"schedule", SmallRun::get().config()};
    command.insert(command.end(), settings.begin(), settings.end());
    const Result shown = partita(command), trained = partita(train_command(2, folder / "run", settings));
    EXPECT_EQ(shown.code, 1);
    EXPECT_EQ(trained.code, 1);
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
    const std::string message = shown.error.substr(shown.error.find(": ") + 2);
    EXPECT_THAT(trained.error, HasSubstr("rank 0: " + message));
    return message;
  };
  EXPECT_THAT(error({"--parallel.pipeline=4"}), HasSubstr("the model has 3 layers: use at most that"));
  EXPECT_THAT(error({"--parallel.pipeline=2", "--parallel.tensor=4"}), HasSubstr("the model has 2 heads"));
  EXPECT_THAT(error({"--parallel.pipeline=2", "--parallel.context=32"}), HasSubstr("must be a multiple of 64"));
  EXPECT_THAT(error({"--parallel.pipeline=2", "--memory.offload_activations=1", "--parallel.schedule=zb_h1"}),
              HasSubstr("use another schedule, or leave memory.offload_activations out"));
  EXPECT_THAT(error({"--parallel.pipeline=2", "--parallel.stages=[1,1]"}), HasSubstr("make them add up to 3"));
  EXPECT_THAT(error({"--parallel.pipeline=2", "--precision.compute=bf16", "--precision.fp8=current"}),
              HasSubstr("model.hidden_size 28: fp8 matmuls need multiples of 16"));
}

TEST(Schedule, FitsOnAScreen) {
  const Result r =
      partita({"schedule", SmallRun::get().config(), "--parallel.pipeline=2", "--train.global_batch=2000"});
  ASSERT_EQ(r.code, 0) << r.error;
  std::istringstream lines(r.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 450U);
  EXPECT_THAT(r.output, HasSubstr("the middle of the step is left out; --svg FILE draws all of it"));
  const Result empty = partita({"schedule", SmallRun::get().config(), "--parallel.pipeline=2", "--svg="});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.error, HasSubstr("--svg needs a value: --svg FILE"));
}

// After a profiled run, `partita schedule` shows its step beneath the modeled one; another schedule is not confused
// with it.
TEST(Schedule, ShowsTheMeasuredTimeline) {
  const TemporaryDirectory folder;
  const std::filesystem::path run = folder / "run", image = folder / "timeline.svg";
  const std::vector<std::string> layout = {"--parallel.pipeline=2", "--parallel.schedule=zb_h1",
                                           "--log.profile_steps=2"};
  const Result trained = partita(train_command(2, run, layout));
  ASSERT_EQ(trained.code, 0) << trained.error;
  const auto show = [&](const std::string& more) {
    std::vector<std::string> command = {"schedule", SmallRun::get().config()};
    command.insert(command.end(), layout.begin(), layout.end());
    command.push_back("--run.directory=" + run.string());
    if (!more.empty()) command.push_back(more);
    command.insert(command.end(), {"--svg", image.string()});
    return partita(command);
  };
  const Result shown = show("");
  ASSERT_EQ(shown.code, 0) << shown.error;
  const size_t measured = shown.output.find("Measured in a step of ");
  ASSERT_NE(measured, std::string::npos) << shown.output;
  EXPECT_THAT(shown.output.substr(measured), AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
  EXPECT_THAT(read_file(image), AllOf(HasSubstr("measured; time: s"), HasSubstr("zb_h1, 2 pipeline ranks")));
  EXPECT_THAT(shown.output.substr(measured), HasSubstr(" s\n"));
  EXPECT_THAT(show("--train.micro_batch=1").output,
              AllOf(Not(HasSubstr("Measured")),
                    HasSubstr("run was profiled with 6 micro-batches, not 12: its timeline is not shown")));
  EXPECT_THAT(show("--parallel.schedule=gpipe").output,
              HasSubstr("run was profiled with schedule zb_h1, not gpipe: its timeline is not shown"));
  write_file(run / "timeline.json", "{");
  const Result broken = show("");
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.error, HasSubstr("timeline.json is no timeline of a run"));
}

}  // namespace
}  // namespace partita::internal::test
