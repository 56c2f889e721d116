// Trains all kinds of models, precisions, adapters and frozen parameters through the command line.
#include <gmock/gmock.h>

#include <cmath>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Options = std::vector<std::string>;

const Options kLlama = {"--model.kind=llama", "--model.heads=4", "--model.kv_heads=2", "--model.head_width=8",
                        "--model.ffn_hidden_size=50"};

Options with(Options options, const Options& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

// Checksums of every file below a folder.
std::string fingerprint(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().string() + read_file(entry.path()));
  std::ranges::sort(files);
  std::string all;
  for (const std::string& file : files) all += file;
  return all;
}

TEST(Models, LlamaOnEveryLayoutIsTheSameRun) {
  const TemporaryDirectory folder;
  const Result one = partita(train_command(1, folder / "one", kLlama));
  ASSERT_EQ(one.code, 0) << one.error;
  const auto lines = metrics(folder / "one");
  EXPECT_LT(lines.back().at("loss") + 0.3, lines.front().at("loss"));
  for (int stage : {1, 3}) {
    const fs::path run = folder / std::to_string(stage);
    const Options options = {"--parallel.zero_stage=" + std::to_string(stage), "--memory.recompute=full",
                             "--debug.poison=true"};
    const Result r = partita(train_command(2, run, with(kLlama, options)));
    ASSERT_EQ(r.code, 0) << r.error;
    expect_same_run(run, folder / "one", 1e-5);
  }
}

// The scale begins too high: steps are skipped until it fits, and the schedule waits for them.
TEST(Models, Fp16SkipsStepsUntilItsScaleFits) {
  const TemporaryDirectory folder;
  const Options options = {"--precision.compute=fp16", "--loss_scale.initial=16777216", "--schedule.warmup=6",
                           "--train.steps=16",         "--parallel.zero_stage=2",       "--log.every=1"};
  const Result r = partita(train_command(2, folder / "run", options));
  ASSERT_EQ(r.code, 0) << r.error;
  const auto lines = metrics(folder / "run");
  const auto skipped = static_cast<int64_t>(lines.back().at("skipped_steps"));
  EXPECT_GE(skipped, 1);
  EXPECT_LE(skipped, 8);
  EXPECT_EQ(lines[0].at("skipped_steps"), 1);
  EXPECT_EQ(lines[0].at("loss_scale"), 8388608);
  EXPECT_EQ(lines[0].at("lr"), lines[static_cast<size_t>(skipped)].at("lr"));  // the first update's
  EXPECT_GT(lines[static_cast<size_t>(skipped) + 1].at("lr"), lines[0].at("lr"));
  EXPECT_LT(lines.back().at("loss") + 0.2, lines[0].at("loss"));
  EXPECT_THAT(r.error, HasSubstr("at loss scale 16777216, nothing was updated"));
  EXPECT_THAT(r.output, HasSubstr("loss scale: 8388608.0 |"));

  const Result floor = partita(train_command(1, folder / "floor", with(options, {"--loss_scale.lowest=16777216"})));
  EXPECT_EQ(floor.code, 1);
  EXPECT_THAT(floor.error, HasSubstr("scale"));
}

TEST(Models, AdaptersAreTrainedBesideAFrozenModel) {
  for (const Options& kind : {Options{}, kLlama}) {
    const TemporaryDirectory folder;
    const fs::path base = folder / "base";
    ASSERT_EQ(partita(train_command(1, base, kind)).code, 0);
    const std::string before = fingerprint(base);

    // The shape is the base's: none is given here.
    const Options lora = {"--model.from=" + base.string(), "--lora.rank=4", "--lora.dropout=0.1", "--model.layers=3",
                          "--model.hidden_size=28"};
    const auto command = [&](int ranks, const fs::path& run, const Options& more) {
      return train_command(ranks, run, with(with(kind, lora), more));
    };
    const Result one = partita(command(1, folder / "one", {}));
    ASSERT_EQ(one.code, 0) << one.error;
    EXPECT_THAT(one.output, HasSubstr("Number of trained parameters = "));
    const auto lines = metrics(folder / "one"), of_base = metrics(base);
    // It begins where the base ended.
    EXPECT_LT(std::abs(lines[0].at("loss") - of_base.back().at("loss")), 0.5);
    EXPECT_EQ(fingerprint(base), before);

    for (int stage : {0, 1, 2, 3}) {
      const fs::path run = folder / std::to_string(stage);
      const Result r = partita(command(
          2, run,
          {"--parallel.zero_stage=" + std::to_string(stage), "--memory.recompute=full", "--debug.poison=true"}));
      ASSERT_EQ(r.code, 0) << r.error;
      expect_same_run(run, folder / "one", 1e-5);
    }

    // The checkpoint holds adapters alone, and the run goes on from it as if it had not stopped.
    const fs::path checkpoint = folder / "3/checkpoints/step-00000012";
    const Result inspected = partita({"checkpoint", "inspect", checkpoint.string()});
    EXPECT_THAT(inspected.output, HasSubstr("lora_a"));
    EXPECT_THAT(inspected.output, testing::Not(HasSubstr("embedding.token.weight")));
    const fs::path whole = folder / "whole";
    fs::create_directory(whole);
    fs::copy(folder / "3/metrics.jsonl", whole / "metrics.jsonl");
    fs::remove_all(checkpoint);
    const Result resumed = partita(command(2, folder / "3", {"--parallel.zero_stage=3", "--memory.recompute=full"}));
    ASSERT_EQ(resumed.code, 0) << resumed.error;
    EXPECT_THAT(resumed.error, HasSubstr("resuming from"));
    expect_same_run(folder / "3", whole, 0);
  }
}

// Their rank and alpha are the defaults, and they stand beside the same base as before, even if its run has gone on.
TEST(Models, AdaptersOfAnotherRunAreTrainedOn) {
  const TemporaryDirectory folder;
  const fs::path base = folder / "base", first = folder / "first", second = folder / "second";
  ASSERT_EQ(partita(train_command(1, base)).code, 0);
  const Result adapted = partita(train_command(
      1, first, {"--model.from=" + base.string(), "--lora.rank=4", "--lora.alpha=32", "--checkpoint.every=0"}));
  ASSERT_EQ(adapted.code, 0) << adapted.error;
  ASSERT_EQ(partita(train_command(1, base, {"--train.steps=16", "--checkpoint.keep_last=0"})).code, 0);

  const Options on = {"--model.from=" + first.string(), "--checkpoint.every=0"};
  const Result config = partita(train_command(1, second, with(on, {"--print-config"})));
  EXPECT_THAT(config.output, HasSubstr("rank = 4"));
  EXPECT_THAT(config.output, HasSubstr("alpha = 32"));
  const Result r = partita(train_command(1, second, on));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_LT(std::abs(metrics(second)[0].at("loss") - metrics(first).back().at("loss")), 0.5);

  const fs::path taken = fs::canonical(base) / "checkpoints/step-00000012";
  for (const fs::path& run : {first, second}) {
    EXPECT_THAT(read_file(run / "checkpoints/step-00000012/manifest.json"), HasSubstr(taken.string())) << run;
    const Result loss = partita({"eval", run.string(), "--data", SmallRun::get().prefix().string(), "--json"});
    EXPECT_EQ(loss.code, 0) << loss.error;
  }
}

TEST(Models, FrozenPartsOnEveryLayoutAreTheSameRun) {
  const TemporaryDirectory folder;
  const Options freeze = {"--train.freeze=embedding.*,layers.0.*,layers.1.mlp.down.weight"};
  ASSERT_EQ(partita(train_command(1, folder / "one", freeze)).code, 0);
  const Result r = partita(train_command(3, folder / "three", with(freeze, {"--parallel.zero_stage=3"})));
  ASSERT_EQ(r.code, 0) << r.error;
  expect_same_run(folder / "three", folder / "one", 1e-5);

  const Result wrong = partita(train_command(1, folder / "wrong", {"--train.freeze=layer.0.*"}));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.error, HasSubstr("train.freeze: no parameter is called \"layer.0.*\""));
}

TEST(Models, WrongCombinationsAreNamed) {
  const TemporaryDirectory folder;
  const auto error = [&](const Options& options) {
    const Result r = partita(train_command(1, folder / "run", options));
    EXPECT_EQ(r.code, 1);
    return r.error;
  };
  EXPECT_THAT(error({"--precision.states=bf16"}), HasSubstr("states in bf16 need compute in bf16"));
  EXPECT_THAT(error({"--lora.rank=2", "--lora.targets=q_proj"}), HasSubstr("no linear \"q_proj\"; it has c_attn"));
  EXPECT_THAT(error({"--lora.rank=2"}), HasSubstr("lora.rank is 2 and model.from is empty"));
  EXPECT_THAT(error({"--model.rope_theta=500000"}), HasSubstr("gpt2 has none"));
  const std::string base = std::string(PARTITA_SOURCE_DIR) + "/tests/golden/hf/llama_mha";
  EXPECT_THAT(error({"--model.from=" + base}), HasSubstr("model.layers is 2 there and 3 here"));
  EXPECT_THAT(error({"--model.from=/nowhere"}), HasSubstr("/nowhere"));
  EXPECT_THAT(error(with(kLlama, {"--model.kv_heads=3"})),
              HasSubstr("model.kv_heads 3 does not divide model.heads 4: use 1, 2 or 4"));
}

}  // namespace
}  // namespace partita::internal::test
