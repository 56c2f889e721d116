#include "partita/config/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/number.h"
#include "partita/config/optimizer_place.h"
#include "partita/config/save_interval.h"
#include "partita/data/batch_plan.h"
#include "partita/data/blend.h"
#include "partita/data/split.h"
#include "partita/nn/parts.h"
#include "partita/optim/loss_scale.h"
#include "partita/pipeline/schedules.h"

namespace partita {
using namespace internal;
namespace {

constexpr int64_t kMostProduct = int64_t{1} << 60;

BatchPlan batch_plan(const Config& c, int64_t ranks) {
  return make_batch_plan(c.train.global_batch, c.train.micro_batch, data_ranks(c, ranks));
}

// Error: a product of sizes overflows a 64-bit integer (leaving room for sums of several).
void require_product(std::initializer_list<std::pair<const char*, int64_t>> keys, const char* what) {
  int64_t product = 1;
  for (const auto& [key, value] : keys) {
    if (!__builtin_mul_overflow(product, value, &product) && product <= kMostProduct) continue;
    std::string names;
    for (const auto& [name, size] : keys) names += fmt::format("{}{} {}", names.empty() ? "" : " x ", name, size);
    fail("{} are more {} than can be counted: use smaller ones", names, what);
  }
}

// Heads, channels of the MLP, vocabulary and learned positions can be split over the tensor-parallel ranks, where the
// plan divides them.
void validate_tensor(const Config& c, const ConfigSources* sources) {
  const ModelConfig& m = c.model;
  const int64_t tensor = c.parallel.tensor, heads = m.heads, kv = m.key_value_heads();
  if (tensor == 1) return;
  const TensorDivision division = tensor_division(c, sources);
  const auto divides = [&](bool LayerDivision::*part) {
    return division.layers.empty() ||
           std::ranges::any_of(division.layers, [&](const LayerDivision& layer) { return layer.*part; });
  };
  const int64_t sharers = (tensor + kv - 1) / kv;  // ranks of a key/value head, if there are fewer than ranks
  if (divides(&LayerDivision::attention) && (tensor > heads || (tensor > kv && sharers > heads / kv)))
    fail(
        "parallel.tensor is {}, the model has {} heads{}: use at most {}, or parallel.plan with "
        "\"layers.*.attention\" = \"replicate\"",
        tensor, heads, kv < heads ? fmt::format(", {} for each of {} key/value heads", heads / kv, kv) : std::string(),
        heads / kv * kv);
  const auto check = [&](const char* key, int64_t size, int64_t quantum, std::string_view plan) {
    if (const int64_t most = (size + quantum - 1) / quantum; size > 0 && most < tensor)
      fail("parallel.tensor is {}, {} {}{}: use at most {}, or parallel.plan with {}", tensor, key, size,
           quantum > 1 ? fmt::format(" is split in multiples of {}", quantum) : std::string(), most, plan);
  };
  if (divides(&LayerDivision::mlp))
    check("model.ffn_hidden_size", m.ffn_size(), ffn_quantum(m.ffn_size()), "\"layers.*.mlp\" = \"replicate\"");
  std::vector<std::string> tables;  // that divide the vocabulary
  if (division.embedding) tables.emplace_back("\"embedding\" = \"replicate\"");
  if (division.head && !m.has_tied_head()) tables.emplace_back("\"head\" = \"replicate\"");
  if (!tables.empty())
    check("model.vocab_size", m.vocab_size, table_parts(m.vocab_size).front().quantum,
          fmt::format("{}", fmt::join(tables, " and ")));
  if (m.kind == ModelKind::gpt2 && division.embedding)
    check("model.max_length", m.max_length, table_parts(m.max_length).front().quantum, tables.front());
  const int64_t rows = tokens_of_micro_batch(c);
  if (c.parallel.sequence == Switch::on && rows % tensor != 0)
    fail(
        "parallel.sequence is true, and {} tokens per micro-batch (train.micro_batch x sequence_length{}) do not "
        "divide over {} tensor-parallel ranks: use a multiple of {}, or parallel.sequence=auto",
        rows, c.parallel.context > 1 ? " / parallel.context" : "", tensor, tensor);
}

// Each rank takes two of 2 x context equal pieces of a sequence, so that all have the same work in causal attention.
void validate_context(const Config& c) {
  const int64_t context = c.parallel.context, length = c.train.sequence_length, parts = 2 * context;
  if (context == 1 || length % parts == 0) return;
  const int64_t below = length / parts * parts;
  fail(
      "train.sequence_length is {} with parallel.context {}: it must be a multiple of {} (2 x parallel.context): use "
      "{}{}",
      length, context, parts, below > 0 ? fmt::format("{} or ", below) : std::string(), below + parts);
}

// Keys that say how a pipeline works are errors without one: ignored, they would only seem to.
void require_pipeline(const ParallelConfig& p) {
  const auto check = [](bool given, const char* key, const auto& value) {
    if (given)
      fail("parallel.{} is {} without a pipeline: set parallel.pipeline, or leave parallel.{} out", key, value, key);
  };
  const ParallelConfig defaults;
  check(p.schedule != defaults.schedule, "schedule", name_of(p.schedule));
  check(p.virtual_stages != defaults.virtual_stages, "virtual_stages", p.virtual_stages);
  check(p.stages != defaults.stages, "stages", fmt::format("[{}]", fmt::join(p.stages, ", ")));
  check(p.open_weights != defaults.open_weights, "open_weights", p.open_weights);
}

// Schedule, stages and layers fit together, whatever the number of ranks.
void validate_pipeline(const Config& c) {
  const ParallelConfig& p = c.parallel;
  if (p.pipeline == 1) return require_pipeline(p);
  const int64_t chunks = pipeline_chunks(c), stages = p.pipeline * chunks;
  // Of one rank: whether the schedule has this many stages per rank.
  check_shape({.schedule = p.schedule, .chunks = static_cast<int>(chunks)});
  if (stages > c.model.layers) {
    if (chunks == 1) fail("parallel.pipeline is {}, the model has {} layers: use at most that", stages, c.model.layers);
    fail(
        "parallel.pipeline {} x {} stages per rank are {} stages, the model has {} layers: lower parallel.pipeline or "
        "parallel.virtual_stages",
        p.pipeline, chunks, stages, c.model.layers);
  }
  (void)stage_layers(c);
}

// Tensor, context and pipeline parallelism divide the ranks of the job.
void validate_ranks(const Config& c, int64_t ranks) {
  const ParallelConfig& p = c.parallel;
  int64_t model = 1;
  std::string given, product;
  for (const auto& [name, size] :
       {std::pair("tensor", p.tensor), std::pair("context", p.context), std::pair("pipeline", p.pipeline)}) {
    if (size == 1) continue;
    model *= size;
    given += fmt::format("{}parallel.{} {}{}", given.empty() ? "" : " and ", name, given.empty() ? "is " : "", size);
    product += fmt::format("{}{}", product.empty() ? "parallel." : " x ", name);
  }
  if (model > ranks || ranks % model != 0)
    fail("{}, the job has {} rank{}: start a multiple of {} ranks (partita launch -n {} ...)", given, ranks,
         ranks == 1 ? "" : "s", model, model);
  if (p.data != 0 && p.data != ranks / model)
    fail("parallel.data is {}, the job has {} rank{}{}: start {} rank{}, or set parallel.data=0", p.data, ranks,
         ranks == 1 ? "" : "s", model > 1 ? fmt::format(", and {} is {}", product, model) : std::string(),
         p.data * model, p.data * model == 1 ? "" : "s");
}

// What the model permits comes first: it does not depend on how many ranks were started.
void validate_parallel(const Config& c, int64_t ranks, const ConfigSources* sources) {
  const ParallelConfig& p = c.parallel;
  require_product({{"parallel.tensor", p.tensor},
                   {"parallel.context", p.context},
                   {"parallel.pipeline", p.pipeline},
                   {"parallel.data", std::max<int64_t>(p.data, 1)}},
                  "ranks");
  if (p.sequence == Switch::on && p.tensor == 1)
    fail(
        "parallel.sequence is true, parallel.tensor 1: it splits the rows over the tensor-parallel ranks; set "
        "parallel.tensor, or parallel.sequence=auto");
  if (!p.plan.empty() && p.tensor == 1)
    fail(
        "parallel.plan is given, parallel.tensor is 1: a plan says what tensor-parallel ranks replicate; set "
        "parallel.tensor, or leave parallel.plan out");
  validate_context(c);
  validate_tensor(c, sources);
  validate_pipeline(c);
  validate_ranks(c, ranks);
  if (p.pipeline > 1)
    check_shape({.schedule = p.schedule,
                 .ranks = static_cast<int>(p.pipeline),
                 .chunks = static_cast<int>(pipeline_chunks(c)),
                 .micro_batches = static_cast<int>(accumulation_steps(c, ranks))});
}

void validate_precision(const Config& c) {
  if (c.precision.states == DType::bf16 && c.precision.compute != DType::bf16)
    fail("precision.states is bf16, precision.compute {}: states in bf16 need compute in bf16",
         name_of(c.precision.compute));
  if (c.precision.fp8 != Fp8Recipe::off && c.precision.compute != DType::bf16)
    fail("precision.fp8 is {}, precision.compute {}: FP8 matrix products need precision.compute=bf16",
         name_of(c.precision.fp8), name_of(c.precision.compute));
  if (c.loss_scale.lowest > c.loss_scale.initial)
    fail("loss_scale.lowest {} is more than loss_scale.initial {}: use at most {}", c.loss_scale.lowest,
         c.loss_scale.initial, c.loss_scale.initial);
  if (const double highest = LossScaleOptions{}.highest; c.loss_scale.initial > highest)
    fail("loss_scale.initial is {}: it never rises above {}, use at most that", c.loss_scale.initial, highest);
}

void validate_memory(const Config& c) {
  const auto check = [&](const char* key, int64_t layers) {
    if (layers > c.model.layers)
      fail("memory.{} is {}, the model has {} layers: use at most that", key, layers, c.model.layers);
  };
  check("recompute_full_layers", c.memory.recompute_full_layers);
  check("offload_activations", c.memory.offload_activations);
  const double states = optimizer_place(c.memory.optimizer).off_device();
  const double weights = parameters_place(c.memory.parameters).off_device();
  const bool some_frozen = c.lora.rank > 0 || !c.train.freeze.empty();
  if (weights > states && !some_frozen)
    fail(
        "memory.parameters is \"{}\" and memory.optimizer is \"{}\": trained weights leave the device with their "
        "optimizer states only; set memory.optimizer to the same fractions or more",
        c.memory.parameters, c.memory.optimizer);
  const auto require = [&](double share, const char* key, const char* where) {
    if (share == 0)
      fail(
          "memory.{} is true and memory.optimizer is \"{}\": it is for optimizer states {}; set "
          "memory.optimizer=host, or leave memory.{} out",
          key, c.memory.optimizer, where, key);
  };
  if (c.memory.gradients_on_host) require(states, "gradients_on_host", "off the device");
  const auto with_delayed_weights = [&](const char* key, const char* why) {
    if (delays_weights(c))
      fail(
          "memory.{} with parallel.schedule {}, which delays weight gradients: {}; use another schedule, or leave "
          "memory.{} out",
          key, name_of(c.parallel.schedule), why, key);
  };
  if (c.memory.gradients_on_host) with_delayed_weights("gradients_on_host", "their buffers stay on the device");
  if (c.memory.offload_activations > 0)
    with_delayed_weights("offload_activations", "they need what is saved for longer than a buffer has it");
  if (!c.memory.early_updates) return;
  require(optimizer_place(c.memory.optimizer).host, "early_updates", "in host memory");
  if (c.precision.compute == DType::fp16)
    fail(
        "memory.early_updates with precision.compute fp16: whether a step is skipped is known when its whole gradient "
        "is; use bf16, or leave memory.early_updates out");
  if (c.optimizer.kind == OptimizerKind::lamb)
    fail(
        "memory.early_updates with optimizer.kind lamb: its updates need norms of whole parameters; use adamw or sgd, "
        "or leave memory.early_updates out");
}

void validate_products(const Config& c) {
  const TrainConfig& t = c.train;
  require_product(
      {{"train.steps", t.steps}, {"train.global_batch", t.global_batch}, {"train.sequence_length", t.sequence_length}},
      "tokens");
  require_product({{"eval.batches", c.eval.batches},
                   {"train.global_batch", t.global_batch},
                   {"train.sequence_length", t.sequence_length}},
                  "tokens");
  // Bytes of a layer's largest activation; kernels count rows in 32 bits.
  require_product({{"train.micro_batch", t.micro_batch},
                   {"train.sequence_length", t.sequence_length},
                   {"model.layers", c.model.layers},
                   {"bytes of a layer and token",
                    64 * std::max({c.model.hidden_size, c.model.ffn_size(), c.model.heads * c.model.head_size()})}},
                  "activations");
  if (t.micro_batch * t.sequence_length > std::numeric_limits<int32_t>::max())
    fail("train.micro_batch {} x train.sequence_length {} are {} tokens: at most {} fit in one micro-batch",
         t.micro_batch, t.sequence_length, t.micro_batch * t.sequence_length, std::numeric_limits<int32_t>::max());
}

void validate_batches(const Config& c, int64_t ranks) {
  validate_products(c);
  (void)batch_plan(c, ranks);
  if (c.train.sequence_length > c.model.max_length) {
    const bool learned = c.model.kind == ModelKind::gpt2 && !c.from.empty();
    fail("train.sequence_length {} is more than model.max_length {}: use at most {}{}", c.train.sequence_length,
         c.model.max_length, c.model.max_length,
         learned ? " (the positions of this model are learned)" : ", or raise model.max_length");
  }
}

void validate_data(const Config& c) {
  const DataConfig& d = c.data;
  const bool prompts = d.format == DataFormat::prompts;
  if (prompts && !d.blend.empty()) fail("data.blend is of token files, data.format is prompts: use data.path");
  if (!d.path.empty() && !d.blend.empty())
    fail("data.path is \"{}\" and data.blend is given too: leave one of them out", d.path.string());
  if (!d.blend.empty()) (void)parse_blend(d.blend);
  if (d.path.empty() && prompts) fail("data.path is not set: give a file of JSON lines with prompt and completion");
  if (d.path.empty() && d.blend.empty())
    fail("data.path is not set: give the prefix of the token files that 'partita tokenize' wrote");
  if (d.tokenizer.empty() && c.from.empty() && (prompts || c.model.vocab_size == 0)) {
    fail("data.tokenizer is not set: give the tokenizer.json {}",
         prompts ? "of the model" : "that the token files were made with, or model.vocab_size");
  }
  if (d.packing && !prompts) fail("data.packing is true: samples of token files have no padding, leave it out");
  if (prompts && d.prompt_key == d.completion_key)
    fail("data.prompt_key and completion_key are both \"{}\": give two keys", d.prompt_key);
  if (!d.validation.empty()) return;  // nothing to split
  const std::array<double, 3> split = parse_split(d.split).shares;
  if (split[0] == 0) fail("data.split \"{}\" leaves nothing for training: use for example \"969,30,1\"", d.split);
  if (c.eval.every > 0 && split[1] == 0) {
    fail(
        "data.split \"{}\" leaves nothing for validation: give it a weight, or data.validation, or set eval.every to 0",
        d.split);
  }
}

void validate_schedule(const Config& c) {
  if (c.optimizer.min_learning_rate > c.optimizer.learning_rate) {
    fail("optimizer.min_learning_rate {} is more than learning_rate {}: use at most {}", c.optimizer.min_learning_rate,
         c.optimizer.learning_rate, c.optimizer.learning_rate);
  }
  const Schedule s = make_schedule(c);
  const char* unit = c.schedule.unit == ScheduleUnit::steps ? "steps" : "samples";
  if (s.warmup > s.length) {
    fail("schedule.warmup of {} {} is longer than the whole schedule of {}: lower schedule.warmup or raise train.steps",
         s.warmup, unit, s.length);
  }
  if (s.kind == ScheduleKind::warmup_stable_decay && s.warmup + s.wsd_decay > s.length) {
    fail(
        "schedule.warmup {} and wsd_decay {} are together longer than the whole schedule of {} {}: lower them or raise "
        "train.steps",
        s.warmup, s.wsd_decay, s.length, unit);
  }
}

}  // namespace

void validate_step(const Config& c, int64_t ranks, const ConfigSources* sources) {
  validate(c.model);
  validate(c.lora, c.model.kind);
  validate_precision(c);
  validate_memory(c);
  validate_parallel(c, ranks, sources);
  validate_batches(c, ranks);
}

void validate(const Config& c, int64_t ranks, const ConfigSources* sources) {
  validate_step(c, ranks, sources);
  if (c.lora.rank > 0 && c.from.empty())
    fail("lora.rank is {} and model.from is empty: adapters are added to a trained model: name its folder",
         c.lora.rank);
  validate_schedule(c);
  validate_data(c);
  if (c.run.directory.empty()) fail("run.directory is empty: name a folder");
  (void)save_interval(c.checkpoint.interval);
  if (c.checkpoint.resume.empty()) fail("checkpoint.resume is empty: use \"auto\", \"never\" or a checkpoint's path");
}

int64_t data_ranks(const Config& c, int64_t ranks) { return sharding_ranks(c, ranks) / c.parallel.context; }
int64_t sharding_ranks(const Config& c, int64_t ranks) { return ranks / (c.parallel.tensor * c.parallel.pipeline); }

int64_t tokens_of_sample(const Config& c) { return c.train.sequence_length / c.parallel.context; }
int64_t tokens_of_micro_batch(const Config& c) { return c.train.micro_batch * tokens_of_sample(c); }

ContextSplit context_split(const Config& c, int64_t context_rank) {
  return {.rank = static_cast<int>(context_rank), .ranks = static_cast<int>(c.parallel.context)};
}

int64_t pipeline_chunks(const Config& c) {
  if (c.parallel.pipeline == 1) return 1;
  if (c.parallel.virtual_stages > 0) return c.parallel.virtual_stages;
  return internal::default_chunks(c.parallel.schedule);
}

std::vector<int64_t> stage_layers(const Config& c) {
  const std::vector<std::string>& given = c.parallel.stages;
  if (given.empty()) return {};
  const int64_t stages = c.parallel.pipeline * pipeline_chunks(c);
  std::vector<int64_t> layers;
  for (const std::string& text : given) {
    const std::optional<int64_t> count = parse_number<int64_t>(text);
    if (!count || *count < 0)
      fail("parallel.stages contains '{}': expected a list of integers, the layers of each stage, as in [8, 8]", text);
    layers.push_back(*count);
  }
  if (std::ssize(layers) != stages)
    fail("parallel.stages has {} number{}: expected {} numbers, one per stage (parallel.pipeline {}{})", layers.size(),
         layers.size() == 1 ? "" : "s", stages, c.parallel.pipeline,
         pipeline_chunks(c) > 1 ? fmt::format(" x {} stages per rank", pipeline_chunks(c)) : std::string());
  // The embedding is before the first stage's layers, the head after the last one's: only these may have none.
  int64_t sum = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == 0 && i > 0 && i + 1 < layers.size())
      fail(
          "parallel.stages: stage {} has no layer: only the first stage, with the embedding, and the last one, with "
          "the head, may have none",
          i);
    // Sums that overflow are wrong, too.
    if (__builtin_add_overflow(sum, layers[i], &sum)) sum = std::numeric_limits<int64_t>::max();
  }
  if (sum != c.model.layers)
    fail("parallel.stages sums to {} layer{}, but the model has {}: make them add up to {}", sum, sum == 1 ? "" : "s",
         c.model.layers, c.model.layers);
  return layers;
}

bool delays_weights(const Config& c) {
  if (c.parallel.pipeline == 1 || c.parallel.open_weights == 0) return false;
  const PipelineSchedule s = c.parallel.schedule;
  return s == PipelineSchedule::zb_h1 || s == PipelineSchedule::interleaved_zero_bubble || s == PipelineSchedule::zbv ||
         s == PipelineSchedule::dual_pipe_v;
}

TensorSplit tensor_split(const Config& c, int64_t tensor_rank) {
  return {.rank = static_cast<int>(tensor_rank),
          .ranks = static_cast<int>(c.parallel.tensor),
          .sequence = c.parallel.tensor > 1 && c.parallel.sequence != Switch::off};
}

int64_t accumulation_steps(const Config& c, int64_t ranks) { return batch_plan(c, ranks).accumulation(); }

Schedule make_schedule(const Config& c) {
  const int64_t whole = c.schedule.unit == ScheduleUnit::steps ? c.train.steps : c.train.steps * c.train.global_batch;
  const int64_t length = c.schedule.decay > 0 ? c.schedule.decay : whole;
  return {.kind = c.schedule.kind,
          .max = c.optimizer.learning_rate,
          .min = c.optimizer.min_learning_rate,
          .warmup = c.schedule.warmup,
          .length = length,
          .wsd_decay = c.schedule.wsd_decay > 0 ? c.schedule.wsd_decay : length / 10,
          .wsd_style = c.schedule.wsd_style};
}

double learning_rate(const Config& c, int64_t step, int64_t consumed_samples) {
  return learning_rate(make_schedule(c), c.schedule.unit == ScheduleUnit::steps ? step : consumed_samples);
}

}  // namespace partita
