#include "partita/train/memory_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/comm/world.h"
#include "partita/train/step_forecast.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kGiB = int64_t{1} << 30;

Config config_of(int64_t layers, int64_t width, int64_t vocabulary) {
  Config c;
  c.model = {.layers = layers, .hidden_size = width, .heads = 4, .vocab_size = vocabulary, .max_length = 64};
  c.train.sequence_length = 64;
  c.train.micro_batch = 8;
  c.train.global_batch = 64;
  return c;
}

int64_t owner(const MemoryForecast& f, const std::string& name) {
  for (const MemoryOwner& o : f.device)
    if (o.name == name) return o.bytes;
  return -1;
}

// Nothing is allocated: a model that no machine holds has a forecast.
TEST(MemoryForecast, OfModelsOfAnySize) {
  Config c = config_of(96, 12288, 50257);  // GPT-3
  c.precision.compute = DType::bf16;
  const MemoryForecast whole = forecast_training(c, 1, at::kCPU);
  const auto parameters = static_cast<double>(parameter_count(c.model));
  EXPECT_NEAR(static_cast<double>(owner(whole, "weights")), 2 * parameters, 0.001 * parameters);
  EXPECT_NEAR(static_cast<double>(owner(whole, "master weights")), 4 * parameters, 0.001 * parameters);
  EXPECT_NEAR(static_cast<double>(owner(whole, "optimizer states")), 8 * parameters, 0.001 * parameters);
  c.parallel.zero_stage = 3;
  const MemoryForecast eighth = forecast_training(c, 8, at::kCPU);
  EXPECT_NEAR(static_cast<double>(owner(eighth, "optimizer states")), parameters, 0.001 * parameters);
}

// What a plan replicates counts whole, and may be divided to save memory.
TEST(MemoryForecast, CountsWhatEveryTensorRankHas) {
  Config c = config_of(12, 256, 1000);
  c.parallel.tensor = 4;
  const MemoryForecast divided = forecast_training(c, 4, at::kCPU);
  c.parallel.plan = {{"layers.*.mlp", "replicate"}};
  const MemoryForecast replicated = forecast_training(c, 4, at::kCPU);
  const double more = 12 * (8 * 256 * 256 + 4 * 256) * (1 - 0.25);  // two matrices of an inner width of 4 x 256, a bias
  EXPECT_NEAR(static_cast<double>(owner(replicated, "weights") - owner(divided, "weights")), 4 * more, 0.001 * more);
  EXPECT_NEAR(static_cast<double>(owner(replicated, "optimizer states") - owner(divided, "optimizer states")), 8 * more,
              0.001 * more);
  // The gradients of a layer's MLP, of which a quarter arrives from each of three ranks to be summed.
  EXPECT_GE(owner(replicated, "sums over ranks"), 8 * 256 * 256 * 4 * 3 / 4);
  // Divided it takes less, and less time.
  const std::vector<MemoryChange> changes = memory_changes(c, 4, at::kCPU, {.device = replicated.device_bytes() - 1},
                                                           default_rates(c.precision.compute, at::kCPU));
  EXPECT_THAT(changes.front().settings, testing::Contains("parallel.plan={}"));
}

// The same as the engine has measured of its own tensors, on the way that a run takes.
TEST(MemoryForecast, IsWhatARunAllocates) {
  World world = World::connect({});
  const Mesh mesh(world);
  for (const int64_t stage : {0, 2, 3})
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      Config c = config_of(5, 32, 61);
      c.parallel.zero_stage = stage;
      c.memory.recompute = recompute;
      const auto engine = build_training_engine(c, mesh);
      const MemoryForecast forecast = forecast_training(c, 1, at::kCPU);
      const std::vector<MemoryOwner> taken = memory_owners(engine->memory());
      for (const MemoryOwner& o : taken) EXPECT_EQ(owner(forecast, o.name), o.bytes) << o.name << " at " << stage;
      EXPECT_EQ(owner(forecast, "batches"), 2 * 64 * 64 * 3 * 4);
    }
}

// What ranks share out and what each of them holds in full.
TEST(MemoryForecast, OfSeveralRanks) {
  Config c = config_of(12, 2048, 1000);  // a layer is a unit of its own
  const auto of = [&](int64_t stage, int64_t ranks) {
    c.parallel.zero_stage = stage;
    return forecast_training(c, ranks, at::kCPU);
  };
  const auto expect_near = [](int64_t bytes, double expected) {
    EXPECT_NEAR(static_cast<double>(bytes), expected, 2e-3 * expected);
  };
  const MemoryForecast alone = of(0, 1), replicas = of(0, 4), sharded = of(2, 4);
  for (const char* name : {"weights", "gradients", "optimizer states", "activations"})
    EXPECT_EQ(owner(replicas, name), owner(alone, name)) << name << ": at stage 0 each rank has all of it";
  EXPECT_EQ(owner(replicas, "batches"), 2 * (64 / 4) * 64 * 3 * 4) << "each rank reads its samples";
  expect_near(owner(sharded, "optimizer states"), static_cast<double>(owner(alone, "optimizer states")) / 4);
  // Of every gradient the parts of three other ranks arrive; from stage 2 on those of two layers at a time, and of what
  // has buffers of its own: tables and vectors.
  EXPECT_EQ(owner(alone, "sums over ranks"), 0);
  const auto parameters = static_cast<double>(parameter_count(c.model));
  expect_near(owner(replicas, "sums over ranks"), 4 * parameters * 3 / 4);
  constexpr double kMatricesOfLayer = 12.0 * 2048 * 2048;
  expect_near(owner(of(1, 4), "sums over ranks"), 4 * parameters * 3 / 4);
  for (const int64_t stage : {2, 3})
    expect_near(owner(of(stage, 4), "sums over ranks"),
                4 * (2 * kMatricesOfLayer + parameters - 12 * kMatricesOfLayer) * 3 / 4);
  // Gradients of replicas add up: in fp32, where those of one rank alone need no sum.
  c.precision.compute = DType::bf16;
  c.train.global_batch = 8;
  const int64_t rounded = owner(of(0, 1), "gradients");
  c.train.global_batch = 32;
  EXPECT_GT(owner(of(0, 4), "gradients"), rounded * 3 / 2);
}

// Context parallelism: half of the tokens of each sample, and a part of the states; in one layer, the keys and values
// of whole sequences twice.
TEST(MemoryForecast, OfPiecesOfSequences) {
  Config c = config_of(5, 32, 61), half = c;
  c.parallel.context = 2;
  c.parallel.zero_stage = half.parallel.zero_stage = 2;
  half.train.sequence_length = c.train.sequence_length / 2;
  const MemoryForecast pieces = forecast_training(c, 2, at::kCPU), alone = forecast_training(half, 1, at::kCPU);
  EXPECT_EQ(owner(pieces, "activations"), owner(alone, "activations"));
  EXPECT_EQ(owner(pieces, "temporaries") - owner(alone, "temporaries"),
            2 * c.train.micro_batch * c.train.sequence_length * 2 * c.model.hidden_size * 4);
  EXPECT_EQ(owner(pieces, "optimizer states"), owner(forecast_training(half, 2, at::kCPU), "optimizer states"));
  EXPECT_EQ(owner(pieces, "batches"), 64 * (64 + 2 * 32) * 3 * 4) << "all samples, and the pieces twice";
}

TEST(MemoryForecast, DocumentsTakeOneMoreArrayOfABatch) {
  Config c = config_of(5, 32, 61);
  c.data.separate_documents = Switch::on;
  EXPECT_EQ(owner(forecast_training(c, 2, at::kCPU), "batches"), 2 * (64 / 2) * 64 * 4 * 4);
}

TEST(MemoryForecast, OfInference) {
  const Config c = config_of(5, 32, 61);
  InferenceSize size{.model = c.model, .shape = {.samples = 2, .length = 16}, .cached_tokens = 10};
  const MemoryForecast f = forecast_inference(size, 1, at::kCPU);
  World world = World::connect({});
  const Mesh mesh(world);
  const auto engine = build_inference_engine(c.model, {}, DType::fp32, size.shape, mesh);
  EXPECT_EQ(owner(f, "weights"), engine->memory().weights);
  EXPECT_EQ(owner(f, "temporaries"), engine->memory().temporaries);
  EXPECT_EQ(owner(f, "keys and values"), 2 * 5 * 32 * 10 * 4);
  size.holds_weights = true;
  EXPECT_EQ(owner(forecast_inference(size, 1, at::kCPU), "weights"), 0);
  // Queries share keys and values.
  size.model.kind = ModelKind::llama;
  size.model.kv_heads = 2;
  EXPECT_EQ(owner(forecast_inference(size, 1, at::kCPU), "keys and values"), 2 * 5 * (2 * 8) * 10 * 4);
  // At stage 3 a rank holds its slices and the slots of two units.
  InferenceSize large{.model = config_of(12, 2048, 1000).model, .shape = {.samples = 1, .length = 8}};
  const int64_t whole = owner(forecast_inference(large, 4, at::kCPU), "weights");
  large.zero_stage = 3;
  EXPECT_LT(owner(forecast_inference(large, 4, at::kCPU), "weights"), whole * 2 / 3);
}

TEST(MemoryProblem, SaysWhatIsNeededFreeAndToLower) {
  const MemoryForecast needed{{{"weights", 3 * kGiB}, {"gradients", 0}, {"activations", 2 * kGiB}}, 0};
  EXPECT_EQ(memory_problem(needed, {5 * kGiB, "x"}, {}), "");
  const std::vector<MemoryChange> changes = {
      {.settings = {"memory.recompute=full"}, .bytes = 4 * kGiB, .fits = true, .slower = 0.3},
      {.settings = {"train.micro_batch=1"}, .bytes = 5 * kGiB}};
  EXPECT_EQ(memory_problem(needed, {4 * kGiB, "ulimit -v"}, changes),
            "5.0 GiB of memory is needed per rank, and 4.0 GiB is free (ulimit -v):\n"
            "  weights             3.0 GiB\n"
            "  activations         2.0 GiB\n"
            "what lowers it:\n"
            "  memory.recompute=full: 4.0 GiB, steps about 30% longer, which fits\n"
            "  train.micro_batch=1: 5.0 GiB");
  EXPECT_THAT(memory_problem(needed, {kGiB, "ulimit -v"}, std::span(changes).last(1)),
              HasSubstr("or shorter sequences, or a smaller model"));
  EXPECT_THAT(memory_problem(needed, {kGiB, "ulimit -v"}, {}), HasSubstr("use a smaller model or batch"));
}

// What cannot be worked out takes nothing from the refusal itself.
TEST(MemoryRefusal, SurvivesAFailureOfItsSuggestions) {
  const MemoryForecast needed{{{"weights", 3 * kGiB}}, 0};
  const FreeMemory free{kGiB, "ulimit -v"};
  const std::string refused = memory_refusal(needed, free, []() -> std::vector<MemoryChange> { throw Error("odd"); });
  EXPECT_EQ(refused, memory_problem(needed, free, {}));
  EXPECT_THAT(refused, StartsWith("3.0 GiB of memory is needed per rank, and 1.0 GiB is free"));
  const auto one = [] {
    return std::vector<MemoryChange>{{.settings = {"train.micro_batch=1"}, .bytes = kGiB / 2, .fits = true}};
  };
  EXPECT_THAT(memory_refusal(needed, free, one), HasSubstr("train.micro_batch=1: 512.0 MiB, which fits"));
  bool asked = false;
  EXPECT_EQ(memory_refusal(needed, {4 * kGiB, "x"},
                           [&] {
                             asked = true;
                             return std::vector<MemoryChange>();
                           }),
            "");
  EXPECT_FALSE(asked) << "only where something has to be lowered";
}

TEST(MemoryWarning, IsOfWhatNearlyFillsTheMemory) {
  const MemoryForecast needed{{{"weights", 96}}, 0};
  EXPECT_EQ(memory_warning(needed, {95, "x"}), "") << "it is refused";
  EXPECT_THAT(memory_warning(needed, {100, "the control group"}),
              AllOf(HasSubstr("the control group"), HasSubstr("may be ended by the system")));
  EXPECT_EQ(memory_warning(needed, {102, "x"}), "");
}

// Of all ranks together it is one line.
TEST(MemoryWarning, IsSaidOnce) {
  testing::internal::CaptureStderr();
  log_memory_warning(std::vector<std::string>{"", "nearly full", "nearly full"});
  log_memory_warning(std::vector<std::string>{"", ""});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("nearly full"));
  EXPECT_EQ(said.find("nearly full"), said.rfind("nearly full"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
}

TEST(RequireMemory, RefusesBeforeAnythingIsAllocated) {
  Config c = config_of(96, 12288, 50257);
  EXPECT_THAT(error_message([&] { (void)require_training_memory(c, 1, 1, at::kCPU); }),
              AllOf(HasSubstr("of memory is needed per rank"), HasSubstr("optimizer states"),
                    HasSubstr("parallel.zero_stage=3 on 8 ranks")));
  // The ranks of a machine share what is free: so few that it is enough for each, and so many that it is not.
  const Config middle = config_of(12, 256, 1000);
  const auto shares = static_cast<double>(free_for_process(memory_limits(), 1).bytes) /
                      static_cast<double>(forecast_training(middle, 1, at::kCPU).device_bytes());
  ASSERT_GT(shares, 3);
  const auto with_local_ranks = [&](double ranks) {
    return error_message([&] { (void)require_training_memory(middle, 1, static_cast<int>(ranks), at::kCPU); });
  };
  EXPECT_EQ(with_local_ranks(shares / 3), "no error");
  EXPECT_THAT(with_local_ranks(shares * 1.6), HasSubstr("of memory is needed per rank"));
  EXPECT_EQ(require_training_memory(config_of(2, 32, 61), 1, 1, at::kCPU), "");
  EXPECT_THAT(error_message([&] {
                (void)require_inference_memory({.model = c.model, .shape = {.samples = 4, .length = 8}}, 1, 1,
                                               at::kCPU);
              }),
              AllOf(HasSubstr("weights"), HasSubstr("--precision bf16")));
}

}  // namespace
}  // namespace partita::internal
