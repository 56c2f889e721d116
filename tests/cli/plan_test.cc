// partita plan: the memory of a run before it is started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/cli/process.h"
#include "tests/cli/small_run.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> plan(std::vector<std::string> options) {
  std::vector<std::string> command{"plan", SmallRun::get().config()};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

json bytes_of(std::vector<std::string> options) {
  options.push_back("--json");
  const Result r = partita(plan(std::move(options)));
  EXPECT_EQ(r.code, 0) << r.error;
  return json::parse(r.output);
}

// The owners' bytes are those that a run prints when it starts.
TEST(Plan, IsWhatARunAllocates) {
  const json found = bytes_of({"--train.device=cpu"});
  EXPECT_EQ(found["ranks"], 1);
  ASSERT_EQ(found["stages"].size(), 1U);
  int64_t sum = 0;
  for (const auto& [name, bytes] : found["stages"][0]["owners"].items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(found["stages"][0]["device"], sum);
  EXPECT_FALSE(found.contains("fits"));
  const TemporaryDirectory folder;
  const Result run =
      partita({"train", SmallRun::get().config(), "--train.steps=1", "--run.directory=" + (folder / "run").string()});
  ASSERT_EQ(run.code, 0) << run.error;
  for (const char* owner : {"weights", "gradients", "optimizer states", "activations", "temporaries"}) {
    const std::string text = human_bytes(found["stages"][0]["owners"][owner].get<int64_t>());
    EXPECT_THAT(run.output + run.error, testing::ContainsRegex(std::string(owner) + " +" + text)) << owner;
  }
}

// Constants on the device, and what a device can do, are the run's.
TEST(Plan, NeedsNoGpu) {
  for (const char* precision : {"--precision.fp8=off", "--precision.fp8=delayed"}) {
    const json llama =
        bytes_of({"--train.device=cuda", "--model.kind=llama", "--model.hidden_size=64", "--model.ffn_hidden_size=128",
                  "--model.vocab_size=512", "--precision.compute=bf16", precision});
    EXPECT_GT(llama["stages"][0]["device"], 0) << precision;
  }
}

// States that fit on neither side do not fit, also where the device alone has room.
TEST(Plan, CountsTheHost) {
  const auto plan_with = [](const char* host) {
    return partita(plan({"--train.device=cuda", "--memory.optimizer=host", "--memory=1", host, "--json"}));
  };
  const Result none = plan_with("--host=0.000001"), enough = plan_with("--host=1");
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(json::parse(none.output)["fits"], false);
  EXPECT_THAT(none.error, HasSubstr("of host memory is needed per rank"));
  EXPECT_EQ(enough.code, 0) << enough.error;
  EXPECT_EQ(json::parse(enough.output)["fits"], true);
  EXPECT_THAT(partita(plan({"--host=1"})).error, HasSubstr("--memory"));
}

// Two checkpoints over the ranks: on the host, which is the device of a run on CPUs.
TEST(Plan, CountsCheckpointsInMemory) {
  const auto kept = [](const char* ranks) {
    return bytes_of({"--train.device=cpu", ranks, "--checkpoint.memory_every=5"})["stages"][0]["owners"]["checkpoints"]
        .get<int64_t>();
  };
  const int64_t one = kept("--ranks=1");
  const TemporaryDirectory folder;
  ASSERT_EQ(partita(train_command(1, folder / "run", {"--train.steps=1"})).code, 0);
  const auto file = std::filesystem::file_size(folder / "run/checkpoints/step-00000001/rank-00000.safetensors");
  EXPECT_LE(one, 2 * static_cast<int64_t>(file));
  EXPECT_GE(one, 2 * static_cast<int64_t>(file) * 9 / 10) << "it also has a header";
  EXPECT_EQ(kept("--ranks=2"), one / 2);
  const json gpu = bytes_of({"--train.device=cuda", "--checkpoint.memory_every=5"});
  EXPECT_EQ(gpu["stages"][0]["host"], one);
  EXPECT_EQ(bytes_of({"--train.device=cuda"})["stages"][0]["host"], 0);
}

TEST(Plan, PutsWeightsOnTheHost) {
  const auto options = [](const char* parameters) {
    return std::vector<std::string>{"--train.device=cuda",     "--precision.compute=bf16",
                                    "--model.layers=8",        "--parallel.layers_per_collective=1",
                                    "--memory.optimizer=host", parameters};
  };
  const auto weights = [](const json& j) { return j["stages"][0]["owners"]["weights"].get<int64_t>(); };
  const json there = bytes_of(options("--memory.parameters=device")),
             host = bytes_of(options("--memory.parameters=host"));
  EXPECT_LT(weights(host), weights(there));
  EXPECT_GT(host["stages"][0]["host"], there["stages"][0]["host"]);
}

TEST(Plan, DividesOverRanks) {
  const json one = bytes_of({"--ranks=1"}), two = bytes_of({"--ranks=2", "--parallel.zero_stage=3"});
  const auto states = [](const json& j) { return j["stages"][0]["owners"]["optimizer states"].get<int64_t>(); };
  EXPECT_NEAR(static_cast<double>(states(two)), static_cast<double>(states(one)) / 2, 4096);
  const json stages = bytes_of({"--parallel.pipeline=2"});
  EXPECT_EQ(stages["ranks"], 2) << "the smallest job";
  EXPECT_EQ(stages["stages"].size(), 2U);
  const json host = bytes_of({"--train.device=cuda", "--memory.optimizer=host"});
  EXPECT_EQ(states(host), 0);
  EXPECT_GT(host["stages"][0]["host"], 0);
  const json disk = bytes_of({"--memory.optimizer=disk"});
  EXPECT_EQ(states(disk), 0);
  EXPECT_GE(disk["stages"][0]["disk"].get<int64_t>(), states(one));
  const json half = bytes_of({"--train.device=cuda", "--memory.optimizer=host:0.5"});
  EXPECT_GT(states(half), 0);
  EXPECT_LT(states(half), states(one));
}

TEST(Plan, SaysWhetherItFits) {
  const Result fits = partita(plan({"--memory=1"}));
  EXPECT_EQ(fits.code, 0);
  EXPECT_THAT(fits.output, HasSubstr("fits: "));
  EXPECT_THAT(fits.output, HasSubstr("of 1.0 GiB remain"));
  EXPECT_EQ(bytes_of({"--memory=1"})["fits"], true);
  const Result large = partita(plan({"--memory=0.0001"}));
  EXPECT_EQ(large.code, 1);
  EXPECT_THAT(large.error, HasSubstr("of memory is needed per rank, and 104.9 KiB is free (as given by --memory):"));
  EXPECT_THAT(large.error, HasSubstr("what lowers it:"));
  EXPECT_THAT(large.error, HasSubstr("parallel.zero_stage=3 on 8 ranks"));
  const json now = bytes_of({"--train.device=cuda"});
  const double most = now["stages"][0]["device"].get<double>() / (1 << 30);
  const Result close = partita(plan({"--train.device=cuda", "--memory", std::to_string(0.9 * most)}));
  EXPECT_EQ(close.code, 1);
  EXPECT_THAT(close.error, testing::ContainsRegex("\n  [a-z_.]+=[^\n]*, steps about [^\n]*, which fits"));
  EXPECT_THAT(partita(plan({"--memory=0.0001", "--json"})).output, HasSubstr("\"fits\":false"));
  EXPECT_EQ(partita(plan({"--memory=1e-12"})).code, 1);
  EXPECT_THAT(partita(plan({"--memory=1e30"})).error, HasSubstr("--memory must be more than 0 and at most 1000000"));
}

// Every moment of the step, and never more than is allocated.
TEST(Plan, ShowsMemoryOverAStep) {
  const json stage = bytes_of({"--train.device=cpu"})["stages"][0];
  const json& moments = stage["moments"];
  ASSERT_EQ(moments.size(), 2U + 2 * 2 * 5) << "two of six micro-batches, five blocks";
  EXPECT_EQ(moments.front()["at"], "before the first pass");
  EXPECT_EQ(moments[1]["at"], "forward 0, embedding");
  EXPECT_EQ(moments[11]["at"], "forward 5, embedding");
  EXPECT_EQ(moments.back()["at"], "update");
  for (const json& moment : moments) {
    int64_t sum = 0;
    for (const char* owner :
         {"weights", "gradients", "master weights", "optimizer states", "activations", "temporaries"}) {
      sum += moment[owner].get<int64_t>();
      EXPECT_LE(moment[owner], stage["owners"][owner]) << owner;
    }
    EXPECT_EQ(moment["in_use"], sum);
    EXPECT_LE(sum, stage["device"].get<int64_t>());
  }
  const Result r = partita(plan({}));
  EXPECT_THAT(r.output, testing::ContainsRegex("\nin use during a step +weights +gradients +states +activations"));
  EXPECT_THAT(r.output,
              testing::ContainsRegex("\nallocated once, before the first step: [0-9.]+ [KM]iB; in use of it"));
}

// At the rates that are given.
TEST(Plan, EstimatesAStep) {
  const std::vector<std::string> host = {
      "--train.device=cuda", "--memory.optimizer=host", "--device-flops=100", "--device-memory=1000",
      "--link=10",           "--host-memory=0.01",      "--disk=1",           "--network=1"};
  const json step = bytes_of(host)["step"];
  EXPECT_EQ(step["bound"], "host_memory");
  EXPECT_EQ(step["resources"]["compute"]["rate"], 100e12);
  EXPECT_EQ(step["resources"]["host_memory"]["rate"], 1e7);
  EXPECT_EQ(step["resources"]["disk"]["amount"], 0);
  const double alone = step["resources"]["host_memory"]["amount"].get<double>() / 1e7;
  EXPECT_GE(step["seconds"].get<double>(), alone * (1 - 1e-12));
  EXPECT_LT(step["seconds_without_bound"].get<double>(), alone);
  const Result r = partita(plan(host));
  EXPECT_THAT(r.output, testing::ContainsRegex("\n  host memory +[0-9.]+ [kM]B +10.0 MB/s +[0-9.]+ m?s\n"));
  EXPECT_THAT(r.output, testing::ContainsRegex("\nstep: about [0-9.]+ m?s, [0-9.]+k? tokens/s; bound by host memory"));
  const json disk = bytes_of({"--train.device=cpu", "--memory.optimizer=disk", "--disk=0.001"})["step"];
  EXPECT_EQ(disk["bound"], "disk");
  EXPECT_THAT(partita(plan({"--disk=0"})).error, HasSubstr("--disk must be more than 0"));
  EXPECT_THAT(partita(plan({"--link=fast"})).error, HasSubstr("--link must be"));
}

// A plan for GPUs needs none, whatever the model.
TEST(Plan, OfLlamaForGpus) {
  const json found = bytes_of({"--train.device=cuda", "--model.kind=llama", "--model.dropout=0",
                               "--model.embedding_dropout=0", "--model.attention_dropout=0"});
  EXPECT_GT(found["stages"][0]["device"], 0);
}

TEST(Plan, ReadsLikeATable) {
  const Result r = partita(plan({"--ranks=4", "--parallel.pipeline=2", "--parallel.zero_stage=1"}));
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.output, HasSubstr("4 ranks on CPUs: data 2 x pipeline 2; ZeRO-1; "));
  EXPECT_THAT(r.output, testing::ContainsRegex("memory per rank +stage 0 +stage 1\n"));
  EXPECT_THAT(r.output, testing::ContainsRegex("\n  weights +[0-9.]+ [KMG]iB +[0-9.]+ [KMG]iB\n"));
  EXPECT_THAT(r.output, Not(HasSubstr("host")));
  EXPECT_THAT(r.output, testing::ContainsRegex("\nstage [01], in use during a step"));
  EXPECT_THAT(r.output, testing::ContainsRegex("\n  other ranks +[0-9.]+ [kM]B"));
}

TEST(Plan, RefusesWhatTrainRefuses) {
  const auto error = [](std::vector<std::string> options) {
    const Result r = partita(plan(std::move(options)));
    EXPECT_EQ(r.code, 1);
    return r.error;
  };
  EXPECT_THAT(error({"--ranks=3", "--parallel.tensor=2"}), HasSubstr("the job has 3 ranks"));
  EXPECT_THAT(error({"--memory.optimizer=tape"}), HasSubstr("memory.optimizer is \"tape\", expected"));
  EXPECT_THAT(error({"--memory.optimizer=host", "--train.device=cpu"}),
              HasSubstr("memory.optimizer is \"host\" on the CPU"));
  EXPECT_THAT(partita(plan({"--memory=0"})).error, HasSubstr("--memory must be more than 0"));
}

}  // namespace
}  // namespace partita::internal::test
