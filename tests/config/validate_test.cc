// What a configuration must satisfy, with the numbers that would.
#include <gmock/gmock.h>

#include "partita/config/optimizer_place.h"
#include "tests/config/valid_config.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using test::valid_config;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The message that validating the config after `change` gives.
template <class Change>
std::string message(Change change, int64_t ranks = 1) {
  Config config = valid_config();
  change(config);
  return error_message([&] { validate(config, ranks); });
}

TEST(Validate, TakesAValidConfig) {
  const auto nothing = [](Config&) {};
  for (const int64_t ranks : {1, 2, 3, 4, 6, 12}) EXPECT_EQ(message(nothing, ranks), "no error") << ranks;
}

TEST(Validate, NamesTheGlobalBatchesThatWork) {
  const auto nothing = [](Config&) {};
  EXPECT_EQ(
      message(nothing, 5),
      "global_batch 24 is not divisible by 5 data-parallel ranks x micro_batch 2: use a global_batch of 20 or 30");
  EXPECT_THAT(message([](Config& c) { c.train.global_batch = 3; }, 4), HasSubstr("use a global_batch of 8"));
}

TEST(Validate, RefusesShapesThatDoNotFit) {
  EXPECT_EQ(message([](Config& c) { c.model.hidden_size = 100, c.model.heads = 12; }),
            "hidden_size 100 is not divisible by 12 heads: use 96 or 108");
  EXPECT_THAT(message([](Config& c) { c.train.sequence_length = 65; }),
              AllOf(HasSubstr("train.sequence_length 65"), HasSubstr("model.max_length 64")));
}

TEST(Validate, CutsThePipeline) {
  const auto pipeline = [](int64_t ranks, PipelineSchedule schedule, int64_t virtual_stages, int64_t job) {
    return message(
        [=](Config& c) {
          c.model.layers = 12;
          c.parallel.pipeline = ranks, c.parallel.schedule = schedule, c.parallel.virtual_stages = virtual_stages;
        },
        job);
  };
  EXPECT_EQ(pipeline(2, PipelineSchedule::one_f_one_b, 0, 4), "no error");
  EXPECT_EQ(pipeline(2, PipelineSchedule::interleaved, 3, 2), "no error");
  EXPECT_EQ(pipeline(2, PipelineSchedule::zb_h1, 0, 2), "no error");
  EXPECT_THAT(pipeline(2, PipelineSchedule::zbv, 3, 2), HasSubstr("zbv"));
  EXPECT_THAT(pipeline(4, PipelineSchedule::interleaved, 4, 4),
              HasSubstr("parallel.pipeline 4 x 4 stages per rank are 16 stages, the model has 12 layers: lower "
                        "parallel.pipeline or parallel.virtual_stages"));
  EXPECT_EQ(pipeline(2, PipelineSchedule::gpipe, 0, 3),
            "parallel.pipeline is 2, the job has 3 ranks: start a multiple of 2 ranks (partita launch -n 2 ...)");
  // What the model does not permit is no matter of the number of ranks.
  EXPECT_EQ(pipeline(13, PipelineSchedule::gpipe, 0, 2),
            "parallel.pipeline is 13, the model has 12 layers: use at most that");
  EXPECT_THAT(pipeline(2, PipelineSchedule::one_f_one_b, 10'000, 1), HasSubstr("1f1b has 1 stage per rank, not 10000"));
  Config c;
  c.parallel.tensor = 2, c.parallel.pipeline = 3;
  EXPECT_EQ(data_ranks(c, 12), 2);
  c.parallel.schedule = PipelineSchedule::interleaved;
  EXPECT_EQ(pipeline_chunks(c), 2);
  EXPECT_EQ(error_message([&] { validate(c, 8); }),
            "parallel.tensor is 2 and parallel.pipeline 3, the job has 8 ranks: start a multiple of 6 ranks (partita "
            "launch -n 6 "
            "...)");
}

TEST(Validate, ReadsStagesGivenByHand) {
  const auto stages = [](const std::vector<std::string>& given, int64_t pipeline = 2) {
    return message(
        [&](Config& c) {
          c.model.layers = 6;
          c.parallel.pipeline = pipeline, c.parallel.stages = given;
        },
        pipeline);
  };
  EXPECT_EQ(stages({}), "no error");
  EXPECT_EQ(stages({"6", "0"}), "no error");  // the head alone
  EXPECT_EQ(stages({"0", "6"}), "no error");  // the embedding alone
  EXPECT_EQ(stages({"2", "3"}), "parallel.stages sums to 5 layers, but the model has 6: make them add up to 6");
  EXPECT_THAT(stages({"1", "9223372036854775807"}), HasSubstr("make them add up to 6"));
  EXPECT_EQ(stages({"2", "2", "2"}),
            "parallel.stages has 3 numbers: expected 2 numbers, one per stage (parallel.pipeline 2)");
  EXPECT_EQ(stages({"2", "4 layers"}),
            "parallel.stages contains '4 layers': expected a list of integers, the layers of each stage, as in [8, 8]");
  EXPECT_THAT(stages({"7", "-1"}), HasSubstr("contains '-1'"));
  EXPECT_THAT(stages({"3", "0", "3"}, 3), HasSubstr("stage 1 has no layer"));
  Config c;
  c.parallel.pipeline = 2;
  EXPECT_FALSE(delays_weights(c));
  c.parallel.schedule = PipelineSchedule::zbv;
  EXPECT_TRUE(delays_weights(c));
  c.parallel.open_weights = 0;
  EXPECT_FALSE(delays_weights(c));
}

TEST(Validate, NeedsAPipelineForWhatDescribesOne) {
  EXPECT_EQ(message([](Config& c) {
              c.parallel.stages = {"1", "1"};
            }),
            "parallel.stages is [1, 1] without a pipeline: set parallel.pipeline, or leave parallel.stages out");
  for (const PipelineSchedule schedule :
       {PipelineSchedule::interleaved, PipelineSchedule::zbv, PipelineSchedule::gpipe})
    EXPECT_EQ(
        message([&](Config& c) { c.parallel.schedule = schedule; }),
        fmt::format("parallel.schedule is {} without a pipeline: set parallel.pipeline, or leave parallel.schedule "
                    "out",
                    name_of(schedule)));
  EXPECT_THAT(message([](Config& c) { c.parallel.virtual_stages = 2; }),
              HasSubstr("parallel.virtual_stages is 2 without a pipeline: set parallel.pipeline"));
  EXPECT_THAT(message([](Config& c) { c.parallel.open_weights = 0; }),
              HasSubstr("parallel.open_weights is 0 without a pipeline: set parallel.pipeline"));
}

TEST(Validate, DoesNotOffloadActivationsOfAPipeline) {
  const auto with = [](const auto& change) {
    return message(
        [&](Config& c) {
          c.parallel.pipeline = 2;
          change(c.memory);
        },
        2);
  };
  EXPECT_EQ(with([](MemoryConfig& m) { m.offload_activations = 1; }), "no error");
  EXPECT_EQ(with([](MemoryConfig& m) { m.optimizer = "host"; }), "no error");
}

TEST(Validate, KnowsThePlacesOfTheOptimizer) {
  const auto at = [](const char* place) { return message([&](Config& c) { c.memory.optimizer = place; }, 1); };
  const auto shares = [](const char* place) {
    const OptimizerPlace p = optimizer_place(place);
    return std::pair(p.host, p.disk);
  };
  EXPECT_EQ(shares("device"), std::pair(0.0, 0.0));
  EXPECT_EQ(shares("host"), std::pair(1.0, 0.0));
  EXPECT_EQ(shares("disk"), std::pair(0.0, 1.0));
  EXPECT_EQ(shares("host:0.6"), std::pair(0.6, 0.0));
  EXPECT_EQ(shares("host:0.3,disk:0.7"), std::pair(0.3, 0.7));
  EXPECT_EQ(shares("disk:0.7,host:0.1"), std::pair(0.1, 0.7));
  for (const char* place : {"", "Host", "host:", "host:1.1", "host:-0.1", "host:nan", "host:0.5x", "true", "host 0.5",
                            "host,", "host,disk", "host:0.6,disk:0.5", "host:0.1,host:0.2", "device,disk:0.5", "hosts"})
    EXPECT_EQ(at(place), fmt::format("memory.optimizer is \"{}\", expected \"device\", \"host\" or \"disk\", or "
                                     "fractions of at most 1 together, such as \"host:0.6\" and \"host:0.3,disk:0.7\"",
                                     place));
}

TEST(Validate, WeightsLeaveWithTheirStates) {
  const auto at = [](const char* parameters, const char* optimizer, auto change) {
    return message(
        [&](Config& c) {
          c.memory.parameters = parameters;
          c.memory.optimizer = optimizer;
          change(c);
        },
        1);
  };
  const auto nothing = [](Config&) {};
  const std::string with_states =
      ": trained weights leave the device with their optimizer states only; set memory.optimizer to the same fractions "
      "or more";
  EXPECT_EQ(at("host", "device", nothing),
            "memory.parameters is \"host\" and memory.optimizer is \"device\"" + with_states);
  EXPECT_EQ(at("host:0.6", "host:0.3,disk:0.2", nothing),
            "memory.parameters is \"host:0.6\" and memory.optimizer is \"host:0.3,disk:0.2\"" + with_states);
  EXPECT_EQ(at("disk:0.5", "host:0.3,disk:0.2", nothing), "no error");
  EXPECT_EQ(at("host", "device", [](Config& c) { c.train.freeze = "layers.*"; }), "no error");
  EXPECT_THAT(at("hosts", "host", nothing), HasSubstr("memory.parameters is \"hosts\", expected \"device\""));
}

TEST(Validate, SumsAndEarlyUpdatesNeedStatesOffTheDevice) {
  const auto with = [](auto change) {
    return message(
        [&](Config& c) {
          c.memory.optimizer = "host";
          change(c);
        },
        1);
  };
  EXPECT_EQ(with([](Config& c) { c.memory.gradients_on_host = c.memory.early_updates = true; }), "no error");
  EXPECT_EQ(with([](Config& c) { c.memory.optimizer = "device", c.memory.gradients_on_host = true; }),
            "memory.gradients_on_host is true and memory.optimizer is \"device\": it is for optimizer states off the "
            "device; set memory.optimizer=host, or leave memory.gradients_on_host out");
  EXPECT_EQ(
      message(
          [](Config& c) {
            c.parallel.pipeline = 2, c.parallel.schedule = PipelineSchedule::zb_h1;
            c.memory.optimizer = "host", c.memory.gradients_on_host = true;
          },
          2),
      "memory.gradients_on_host with parallel.schedule zb_h1, which delays weight gradients: their buffers stay on "
      "the device; use another schedule, or leave memory.gradients_on_host out");
  EXPECT_THAT(with([](Config& c) { c.memory.optimizer = "disk", c.memory.early_updates = true; }),
              HasSubstr("leave memory.early_updates out"));
  EXPECT_EQ(with([](Config& c) { c.memory.early_updates = true, c.precision.compute = DType::fp16; }),
            "memory.early_updates with precision.compute fp16: whether a step is skipped is known when its whole "
            "gradient is; use bf16, or leave memory.early_updates out");
  EXPECT_EQ(with([](Config& c) { c.memory.early_updates = true, c.optimizer.kind = OptimizerKind::lamb; }),
            "memory.early_updates with optimizer.kind lamb: its updates need norms of whole parameters; use adamw or "
            "sgd, or leave memory.early_updates out");
}

TEST(Validate, ComparesDataRanksWithTheJob) {
  EXPECT_EQ(message([](Config& c) { c.parallel.data = 2; }, 2), "no error");
  EXPECT_THAT(message([](Config& c) { c.parallel.data = 4; }, 2),
              AllOf(HasSubstr("parallel.data is 4"), HasSubstr("2 ranks")));
  EXPECT_EQ(message([](Config& c) { c.parallel.tensor = 2, c.parallel.data = 2; }, 4), "no error");
  EXPECT_EQ(message([](Config& c) { c.parallel.tensor = 2, c.parallel.data = 3; }, 4),
            "parallel.data is 3, the job has 4 ranks, and parallel.tensor is 2: start 6 ranks, or set "
            "parallel.data=0");
  EXPECT_EQ(message([](Config& c) { c.parallel.tensor = 2, c.parallel.context = 2, c.parallel.data = 3; }, 8),
            "parallel.data is 3, the job has 8 ranks, and parallel.tensor x context is 4: start 12 ranks, or set "
            "parallel.data=0");
}

TEST(Validate, CutsSequencesOverContextRanks) {
  const auto context = [](int64_t ranks, int64_t length, int64_t job) {
    return message([=](Config& c) { c.parallel.context = ranks, c.train.sequence_length = length; }, job);
  };
  EXPECT_EQ(context(2, 64, 2), "no error");
  EXPECT_EQ(context(2, 64, 6), "no error");
  EXPECT_EQ(context(3, 60, 6), "no error");
  EXPECT_EQ(context(3, 64, 3),
            "train.sequence_length is 64 with parallel.context 3: it must be a multiple of 6 (2 x parallel.context): "
            "use 60 or 66");
  EXPECT_EQ(context(4, 7, 4),
            "train.sequence_length is 7 with parallel.context 4: it must be a multiple of 8 (2 x parallel.context): "
            "use 8");
  EXPECT_EQ(context(2, 64, 3),
            "parallel.context is 2, the job has 3 ranks: start a multiple of 2 ranks (partita launch -n 2 ...)");
  EXPECT_THAT(context(1'000'000'000, 64, 3), HasSubstr("a multiple of 2000000000"));
  EXPECT_THAT(
      message([](Config& c) { c.parallel.tensor = c.parallel.context = c.parallel.pipeline = 1'000'000'000; }, 2),
      HasSubstr("are more ranks than can be counted"));
  // Rows that sequence parallelism divides are those of a rank's pieces.
  const auto rows = [](int64_t length) {
    return message(
        [=](Config& c) {
          c.parallel.context = 2, c.parallel.tensor = 4, c.parallel.sequence = Switch::on;
          c.train.micro_batch = 1, c.train.global_batch = 1, c.train.sequence_length = length;
          c.model.heads = 4;
        },
        8);
  };
  EXPECT_EQ(rows(64), "no error");
  EXPECT_THAT(
      rows(60),
      HasSubstr("30 tokens per micro-batch (train.micro_batch x sequence_length / parallel.context) do not divide "
                "over 4 tensor-parallel ranks: use a multiple of 4"));
  Config c;
  c.parallel.tensor = 2, c.parallel.context = 3, c.train.sequence_length = 60, c.train.micro_batch = 4;
  EXPECT_EQ(data_ranks(c, 12), 2);
  EXPECT_EQ(sharding_ranks(c, 12), 6);
  EXPECT_EQ(tokens_of_sample(c), 20);
  EXPECT_EQ(tokens_of_micro_batch(c), 80);
  EXPECT_EQ(context_split(c, 1), (ContextSplit{.rank = 1, .ranks = 3}));
}

TEST(Validate, SplitsHeadsOverTensorRanks) {
  const auto tensor = [](int64_t heads, int64_t kv_heads, int64_t ranks) {
    return message(
        [=](Config& c) {
          c.model.kind = ModelKind::llama;
          c.model.heads = heads, c.model.kv_heads = kv_heads, c.model.head_width = 4;
          c.parallel.tensor = ranks;
        },
        ranks);
  };
  EXPECT_EQ(tensor(6, 0, 4), "no error");  // heads that do not divide
  EXPECT_EQ(tensor(6, 2, 4), "no error");  // ranks that share a key/value head
  EXPECT_EQ(tensor(6, 2, 6), "no error");
  EXPECT_EQ(
      tensor(6, 0, 7),
      "parallel.tensor is 7, the model has 6 heads: use at most 6, or parallel.plan with \"layers.*.attention\" = "
      "\"replicate\"");
  EXPECT_THAT(
      tensor(8, 2, 10),
      HasSubstr("parallel.tensor is 10, the model has 8 heads, 4 for each of 2 key/value heads: use at most 8, or"));
  EXPECT_EQ(message([](Config& c) { c.parallel.tensor = 2; }, 3),
            "parallel.tensor is 2, the job has 3 ranks: start a multiple of 2 ranks (partita launch -n 2 ...)");
  EXPECT_THAT(message([](Config& c) { c.parallel.tensor = 4; }, 2),
              HasSubstr("parallel.tensor is 4, the model has 3 heads: use at most 3"));
}

// What a plan replicates need not be divisible.
TEST(Validate, TakesPlansOfTensorParallelism) {
  const auto plan = [](ConfigTable table) {
    return message(
        [&](Config& c) {
          c.model.kind = ModelKind::llama, c.model.ffn_hidden_size = 3, c.model.vocab_size = 2;
          c.parallel.tensor = 4, c.parallel.plan = std::move(table);
        },
        4);
  };
  EXPECT_THAT(plan({}), HasSubstr("the model has 3 heads"));
  EXPECT_EQ(plan({{"layers.*.attention", "replicate"}}),
            "parallel.tensor is 4, model.ffn_hidden_size 3: use at most 3, or parallel.plan with \"layers.*.mlp\" = "
            "\"replicate\"");
  EXPECT_THAT(plan({{"layers.0", "replicate"}, {"layers.*.mlp", "replicate"}}), HasSubstr("the model has 3 heads"));
  EXPECT_EQ(
      plan({{"layers.*", "replicate"}}),
      "parallel.tensor is 4, model.vocab_size 2: use at most 2, or parallel.plan with \"embedding\" = \"replicate\" "
      "and \"head\" = \"replicate\"");
  EXPECT_EQ(plan({{"layers.*", "replicate"}, {"embedding", "replicate"}}),
            "parallel.tensor is 4, model.vocab_size 2: use at most 2, or parallel.plan with \"head\" = \"replicate\"");
  EXPECT_EQ(
      plan({{"layers.*", "replicate"}, {"head", "replicate"}}),
      "parallel.tensor is 4, model.vocab_size 2: use at most 2, or parallel.plan with \"embedding\" = \"replicate\"");
  EXPECT_EQ(plan({{"layers.*", "replicate"}, {"embedding", "replicate"}, {"head", "replicate"}}), "no error");
  EXPECT_EQ(plan({{"layers.*.attn", "replicate"}}),
            "parallel.plan: \"layers.*.attn\" matches no parameter of the model: the nearest names are "
            "layers.*.attention, layers.*.attention.qkv, layers.*.attention.output");
  EXPECT_EQ(plan({{"embedding", "replicated"}}),
            "parallel.plan: \"embedding\" = \"replicated\": expected one of column, row, vocabulary, replicate, "
            "replicate_sum");
  EXPECT_THAT(message(
                  [](Config& c) {
                    c.model.vocab_size = 2, c.model.heads = 4;
                    c.parallel.tensor = 4;
                  },
                  4),
              HasSubstr("use at most 2, or parallel.plan with \"embedding\" = \"replicate\""));  // tied
  // With its place, if that is known.
  Config placed = valid_config();
  placed.parallel.tensor = 2, placed.parallel.plan = {{"layers.9.mlp", "replicate"}};
  const auto at = [&](const ConfigSources& sources) { return error_message([&] { validate(placed, 2, &sources); }); };
  EXPECT_EQ(at({{"parallel.plan", "a.toml:12"}, {"parallel.tensor", "b.toml:3"}}),
            "a.toml:12: parallel.plan: \"layers.9.mlp\" matches nothing: the model has layers 0 to 1");
  EXPECT_EQ(at({}), "parallel.plan: \"layers.9.mlp\" matches nothing: the model has layers 0 to 1");
  // Ignored, it would only seem to be in use.
  EXPECT_EQ(message([](Config& c) {
              c.parallel.plan = {{"embedding", "replicate"}};
            }),
            "parallel.plan is given, parallel.tensor is 1: a plan says what tensor-parallel ranks replicate; set "
            "parallel.tensor, or leave parallel.plan out");
}

TEST(Validate, SplitsRowsOverTensorRanks) {
  const auto sequence = [](int64_t samples, int64_t tensor) {
    return message(
        [=](Config& c) {
          c.parallel.tensor = tensor, c.parallel.sequence = Switch::on;
          c.train.micro_batch = samples, c.train.global_batch = 2 * samples, c.train.sequence_length = 63;
        },
        tensor);
  };
  EXPECT_EQ(sequence(2, 2), "no error");
  EXPECT_THAT(sequence(1, 2), AllOf(HasSubstr("parallel.sequence is true, and 63 tokens per micro-batch"),
                                    HasSubstr("a multiple of 2")));
  EXPECT_THAT(sequence(2, 1), AllOf(HasSubstr("parallel.sequence is true, parallel.tensor 1"),
                                    HasSubstr("set parallel.tensor, or parallel.sequence=auto")));
  Config c;
  c.parallel.tensor = 2;
  EXPECT_TRUE(tensor_split(c, 1).sequence);
  EXPECT_EQ(tensor_split(c, 1).rank, 1);
  c.parallel.sequence = Switch::off;
  EXPECT_FALSE(tensor_split(c, 1).sequence);
  EXPECT_EQ(data_ranks(c, 6), 3);
}

TEST(Validate, ChecksTheSchedule) {
  EXPECT_THAT(message([](Config& c) { c.optimizer.min_learning_rate = 1; }), HasSubstr("min_learning_rate 1"));
  EXPECT_THAT(message([](Config& c) { c.schedule.warmup = 101; }),
              HasSubstr("warmup of 101 steps is longer than the whole schedule of 100"));
  EXPECT_EQ(message([](Config& c) { c.schedule.warmup = 101, c.schedule.unit = ScheduleUnit::samples; }), "no error");
  const auto wsd = [](int64_t warmup, int64_t fall) {
    return [=](Config& c) {
      c.schedule.kind = ScheduleKind::warmup_stable_decay;
      c.schedule.warmup = warmup, c.schedule.wsd_decay = fall;
    };
  };
  EXPECT_EQ(message(wsd(50, 50)), "no error");
  EXPECT_THAT(message(wsd(51, 50)), HasSubstr("together longer than the whole schedule of 100 steps"));
}

TEST(Validate, NeedsDataAndADirectory) {
  EXPECT_THAT(message([](Config& c) { c.data.path = ""; }), HasSubstr("data.path is not set"));
  EXPECT_EQ(message([](Config& c) { c.data.tokenizer = ""; }), "no error");  // the vocabulary's size is given
  EXPECT_THAT(message([](Config& c) { c.data.tokenizer = "", c.model.vocab_size = 0; }),
              HasSubstr("data.tokenizer is not set"));
  EXPECT_THAT(message([](Config& c) { c.run.directory = ""; }), HasSubstr("run.directory is empty"));
  EXPECT_THAT(message([](Config& c) { c.checkpoint.resume = ""; }), HasSubstr("checkpoint.resume is empty"));
}

TEST(Validate, ChecksTheSplit) {
  EXPECT_THAT(message([](Config& c) { c.data.split = "0,1,1"; }), HasSubstr("nothing for training"));
  EXPECT_THAT(message([](Config& c) { c.data.split = "1,0,0"; }), HasSubstr("nothing for validation"));
  EXPECT_EQ(message([](Config& c) { c.data.split = "1,0,0", c.eval.every = 0; }), "no error");
  EXPECT_NE(message([](Config& c) { c.data.split = "1,x,0"; }), "no error");
}

TEST(Validate, ChecksPrecisions) {
  const auto types = [](DType precision, DType states, Fp8Recipe fp8) {
    return message(
        [=](Config& c) { c.precision.compute = precision, c.precision.states = states, c.precision.fp8 = fp8; });
  };
  EXPECT_EQ(types(DType::bf16, DType::bf16, Fp8Recipe::current), "no error");
  for (const DType precision : {DType::fp32, DType::fp16}) {
    EXPECT_THAT(types(precision, DType::bf16, Fp8Recipe::off), HasSubstr("states in bf16 need compute in bf16"));
    EXPECT_THAT(types(precision, DType::fp32, Fp8Recipe::delayed),
                HasSubstr("precision.fp8 is delayed, precision.compute"));
  }
}

TEST(Validate, ComparesLayersWithTheModel) {
  const auto layers = [](int64_t full, int64_t offloaded) {
    return message([=](Config& c) {
      c.memory.recompute_full_layers = c.model.layers + full;
      c.memory.offload_activations = c.model.layers + offloaded;
    });
  };
  EXPECT_EQ(layers(0, 0), "no error");
  EXPECT_THAT(layers(1, 0), HasSubstr("memory.recompute_full_layers is"));
  EXPECT_THAT(layers(0, 1), HasSubstr("memory.offload_activations is"));
}

TEST(Validate, ChecksTheLossScale) {
  EXPECT_EQ(message([](Config& c) { c.loss_scale.initial = c.loss_scale.lowest = 16777216; }), "no error");
  EXPECT_THAT(message([](Config& c) { c.loss_scale.initial = 33554432; }),
              HasSubstr("loss_scale.initial is 33554432: it never rises above 16777216"));
  EXPECT_THAT(message([](Config& c) { c.loss_scale.lowest = 131072; }), HasSubstr("loss_scale.lowest 131072 is more"));
}

TEST(Validate, ChecksPrompts) {
  const auto prompts = [](auto change) {
    return message([&](Config& c) {
      c.data.format = DataFormat::prompts;
      c.data.path = "train.jsonl";
      change(c);
    });
  };
  EXPECT_EQ(prompts([](Config&) {}), "no error");
  EXPECT_EQ(prompts([](Config& c) { c.data.packing = true; }), "no error");
  EXPECT_THAT(message([](Config& c) { c.data.packing = true; }),
              HasSubstr("data.packing is true: samples of token files"));
  EXPECT_THAT(prompts([](Config& c) { c.data.path = ""; }),
              HasSubstr("data.path is not set: give a file of JSON lines"));
  EXPECT_THAT(prompts([](Config& c) { c.data.tokenizer = ""; }), HasSubstr("give the tokenizer.json of the model"));
  EXPECT_EQ(prompts([](Config& c) { c.data.tokenizer = "", c.from = "gpt2"; }), "no error");
  EXPECT_THAT(prompts([](Config& c) { c.data.prompt_key = "completion"; }), HasSubstr("both \"completion\""));
  EXPECT_EQ(prompts([](Config& c) { c.data.split = "1", c.data.validation = "valid.jsonl"; }), "no error");
}

// What a step alone asks for: no data, no run directory, but sizes that fit.
TEST(ValidateStep, AsksForNoMoreThanTheStep) {
  Config config = valid_config();
  config.data = {};
  config.run.directory.clear();
  EXPECT_EQ(error_message([&] { validate_step(config, 2); }), "no error");
  EXPECT_THAT(error_message([&] { validate(config, 2); }), HasSubstr("data.path"));
  const auto refused = [&](auto change) {
    Config wrong = config;
    change(wrong);
    const std::string message = error_message([&] { validate_step(wrong, 2); });
    EXPECT_EQ(message, error_message([&] { validate(wrong, 2); }));
    return message;
  };
  EXPECT_THAT(refused([](Config& c) { c.memory.recompute_full_layers = 3; }),
              HasSubstr("memory.recompute_full_layers is 3, the model has 2 layers"));
  EXPECT_THAT(refused([](Config& c) { c.memory.offload_activations = 5; }), HasSubstr("the model has 2 layers"));
  EXPECT_THAT(refused([](Config& c) { c.precision.states = DType::bf16; }), HasSubstr("states in bf16 need compute"));
  EXPECT_THAT(refused([](Config& c) { c.train.sequence_length = 65; }), HasSubstr("max_length"));
  EXPECT_THAT(refused([](Config& c) { c.train.global_batch = 23; }), HasSubstr("global_batch 23"));
}

}  // namespace
}  // namespace partita::internal
