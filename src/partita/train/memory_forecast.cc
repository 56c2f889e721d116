#include "partita/train/memory_forecast.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/config/optimizer_place.h"
#include "partita/device/device_use.h"
#include "partita/engine/engine_memory.h"
#include "partita/engine/engine_plan.h"
#include "partita/models/model.h"
#include "partita/train/token_samples.h"

namespace partita::internal {
namespace {

constexpr int kBatchArrays = 3;  // tokens, labels and positions, all int32
constexpr int64_t kMoreRanks = 8;
constexpr double kNearlyFull = 0.95;  // fraction of free memory above which to warn

Sharding sharding_of(int64_t zero_stage, int64_t ranks) {
  return zero_sharding(static_cast<int>(zero_stage), static_cast<int>(ranks));
}

// The batches of a step: once as read, once where kernels access them; with context parallelism, this rank's pieces
// between.
int64_t batch_bytes(const Config& c, int64_t ranks) {
  const int64_t samples = c.train.global_batch / data_ranks(c, ranks);
  const int arrays = kBatchArrays + (documents_of(c.data) == Documents::separate ? 1 : 0);
  const int64_t length = c.train.sequence_length + tokens_of_sample(c) * (c.parallel.context > 1 ? 2 : 1);
  return samples * length * arrays * static_cast<int64_t>(sizeof(int32_t));
}

// Buffers for gradients received from other ranks to be summed on the CPU: all gradients at stage 0, two units
// otherwise.
int64_t sum_bytes(const std::vector<std::unique_ptr<Block>>& blocks, const Config& c, int64_t ranks,
                  MeshLayout::Position at) {
  const int64_t data = sharding_ranks(c, ranks), tensor = c.parallel.tensor, context = c.parallel.context;
  // Rows of the residual stream, and keys and values, of which each rank has a partial sum.
  const int64_t keys = 2 * c.model.key_value_heads() * c.model.head_size();
  const int64_t rows = tokens_of_micro_batch(c) * size_of(c.precision.compute) *
                       std::max(c.model.hidden_size / tensor * (tensor - 1), keys * (context - 1));
  if (data == 1 && tensor == 1) return rows;
  const EngineOptions options = training_options(c, ranks, at::kCPU, at);
  const UnitPlan plan = plan_engine(blocks, sharding_of(c.parallel.zero_stage, data), options).units;
  // Gradients of what several tensor-parallel ranks hold.
  int64_t shared = 0;
  for (const Unit& unit : plan.units)
    for (const SharedRun& run : unit.trainable ? shared_runs(unit.layout) : std::vector<SharedRun>())
      shared = std::max(shared, run.run.count * size_of(unit.gradient) / run.holders * (run.holders - 1));
  if (data == 1) return std::max(rows, shared);
  std::vector<int64_t> bytes;
  for (const Unit& unit : plan.units)
    if (unit.trainable) bytes.push_back(unit.layout.count * size_of(unit.gradient) / data * (data - 1));
  std::ranges::sort(bytes, std::greater());
  if (c.parallel.zero_stage > 0 && bytes.size() > 2) bytes.resize(2);
  int64_t sum = 0;
  for (const int64_t b : bytes) sum += b;
  return std::max(sum, shared);
}

// The configuration with one key changed; empty if the value would be the same.
struct Alternative {
  std::string change;
  std::function<void(Config&)> apply;
};

std::vector<Alternative> alternatives(const Config& c, int64_t ranks, at::Device device) {
  std::vector<Alternative> all;
  for (int64_t stage = std::max<int64_t>(c.parallel.zero_stage + 1, 1); ranks > 1 && stage <= 3; ++stage)
    all.push_back(
        {fmt::format("parallel.zero_stage={}", stage), [stage](Config& x) { x.parallel.zero_stage = stage; }});
  for (auto r = static_cast<size_t>(c.memory.recompute) + 1; r < EnumNames<Recompute>::kNames.size(); ++r) {
    const auto more = static_cast<Recompute>(r);
    all.push_back(
        {fmt::format("memory.recompute={}", name_of(more)), [more](Config& x) { x.memory.recompute = more; }});
  }
  if (delays_weights(c))
    for (const int64_t open : {1, 0})
      all.push_back(
          {fmt::format("parallel.open_weights={}", open), [open](Config& x) { x.parallel.open_weights = open; }});
  if (c.parallel.tensor > 1 && !c.parallel.plan.empty())
    all.push_back({"parallel.plan={}", [](Config& x) { x.parallel.plan.clear(); }});
  if (c.train.micro_batch > 1) all.push_back({"train.micro_batch=1", [](Config& x) { x.train.micro_batch = 1; }});
  if (device.is_cuda() && optimizer_place(c.memory.optimizer).off_device() < 1)
    all.push_back({"memory.optimizer=host", [](Config& x) { x.memory.optimizer = "host"; }});
  if (device.is_cpu() && optimizer_place(c.memory.optimizer).off_device() < 1)
    all.push_back({"memory.optimizer=disk", [](Config& x) { x.memory.optimizer = "disk"; }});
  if (c.precision.compute == DType::fp32)
    all.push_back({"precision.compute=bf16", [](Config& x) { x.precision.compute = DType::bf16; }});
  if (c.precision.compute != DType::fp16 && c.precision.states == DType::fp32)
    all.push_back({fmt::format("precision.states=bf16 with precision.compute=bf16"),  // gcc 12: false warnings
                   [](Config& x) { x.precision.compute = x.precision.states = DType::bf16; }});
  if (c.train.sequence_length > 1)
    all.push_back({fmt::format("train.sequence_length={}", c.train.sequence_length / 2),
                   [](Config& x) { x.train.sequence_length /= 2; }});
  return all;
}

// Part before "=": two changes of the same key have it in common.
std::string key_of(const std::string& change) { return change.substr(0, change.find('=')); }

// True if the change affects results only by rounding.
bool keeps_the_run(const std::string& change) {
  return !change.starts_with("precision.compute") && !change.starts_with("precision.states") &&
         !change.starts_with("train.sequence_length");
}

std::string require(const MemoryForecast& needed, int local_ranks, at::Device device,
                    const std::function<std::vector<MemorySaving>()>& savings) {
  const FreeMemory host = free_for_process(memory_limits(), local_ranks);
  const FreeMemory on_device = device.is_cpu() ? host : FreeMemory{free_device_memory(device), "the memory of the GPU"};
  if (const std::string problem = memory_refusal(needed, on_device, savings); !problem.empty()) throw Error(problem);
  const MemoryForecast on_host{.device = {{"offloaded", needed.host}}};
  if (const std::string problem = memory_problem(on_host, host, {}); !device.is_cpu() && !problem.empty())
    fail("{}\nuse less of memory.optimizer=host and memory.offload_activations, or memory.optimizer=disk", problem);
  return memory_warning(needed, on_device);
}

// Device bytes; empty if the computation fails, which drops the suggestion instead of raising an error.
std::optional<int64_t> bytes_with(const Config& changed, int64_t ranks, at::Device device) {
  try {
    return forecast_training(changed, ranks, device).device_bytes();
  } catch (const std::exception& error) {
    log::debug("a suggestion was left out: {}", error.what());
    return std::nullopt;
  }
}

}  // namespace

int64_t MemoryForecast::device_bytes() const {
  int64_t total = 0;
  for (const MemoryOwner& owner : device) total += owner.bytes;
  return total;
}

std::vector<MemoryOwner> memory_owners(const EngineMemory& m) {
  return {{"weights", m.weights},         {"gradients", m.gradients - m.shared},
          {"master weights", m.master},   {"optimizer states", m.optimizer},
          {"activations", m.activations}, {"temporaries", m.temporaries}};
}

namespace {

MemoryForecast forecast_stage(const Config& c, int64_t ranks, at::Device device, MeshLayout::Position at) {
  const std::vector<std::unique_ptr<Block>> blocks = training_blocks(c, device, at, /*runs=*/false);
  const EngineMemory m = predict_memory(blocks, sharding_of(c.parallel.zero_stage, sharding_ranks(c, ranks)),
                                        training_options(c, ranks, device, at));
  MemoryForecast forecast{memory_owners(m), m.host, m.disk};
  forecast.device.push_back({"batches", batch_bytes(c, ranks)});
  if (!device.is_cpu()) return forecast;
  forecast.device.push_back({"sums over ranks", sum_bytes(blocks, c, ranks, at)});
  // Gradients and working buffers of states on disk.
  forecast.device.push_back({"offload", std::exchange(forecast.host, 0)});
  return forecast;
}

}  // namespace

std::vector<MemoryForecast> forecast_stages(const Config& config, int64_t ranks, at::Device device) {
  Config c = config;
  c.kernels.cuda_graph = Switch::off;  // needs no memory of its own
  std::vector<MemoryForecast> stages(static_cast<size_t>(c.parallel.pipeline));
  for (int pipeline = 0; pipeline < c.parallel.pipeline; ++pipeline)
    // The first tensor-parallel rank has the largest part of tables, the last one the most heads.
    for (const int tensor : {0, static_cast<int>(c.parallel.tensor) - 1}) {
      MemoryForecast& most = stages[static_cast<size_t>(pipeline)];
      MemoryForecast one = forecast_stage(c, ranks, device, {.tensor = tensor, .pipeline = pipeline});
      if (one.device_bytes() > most.device_bytes()) most = std::move(one);
    }
  return stages;
}

MemoryForecast forecast_training(const Config& c, int64_t ranks, at::Device device) {
  const std::vector<MemoryForecast> stages = forecast_stages(c, ranks, device);
  MemoryForecast most = std::ranges::max(stages, {}, &MemoryForecast::device_bytes);
  for (const MemoryForecast& stage : stages) {
    most.host = std::max(most.host, stage.host);
    most.disk = std::max(most.disk, stage.disk);
  }
  return most;
}

MemoryForecast forecast_inference(const InferenceSize& s, int64_t ranks, at::Device device) {
  const std::vector<std::unique_ptr<Block>> blocks = make_blocks(s.model, s.compute, s.lora, device);
  const EngineMemory m =
      predict_memory(blocks, sharding_of(s.zero_stage, ranks), inference_options(s.model, s.compute, s.shape, device));
  const int64_t cached = 2 * s.model.layers * s.model.key_value_heads() * s.model.head_size() * s.cached_tokens;
  return {{{"weights", s.holds_weights ? 0 : m.weights},
           {"temporaries", m.temporaries},
           {"keys and values", cached * size_of(s.compute)}}};
}

std::vector<MemorySaving> memory_savings(const Config& c, int64_t ranks, at::Device device) {
  const int64_t now = forecast_training(c, ranks, device).device_bytes();
  struct Found {
    Alternative alternative;
    int64_t bytes;
  };
  std::vector<Found> found;
  for (Alternative& a : alternatives(c, ranks, device)) {
    Config changed = c;
    a.apply(changed);
    const std::optional<int64_t> bytes = bytes_with(changed, ranks, device);
    if (!bytes || *bytes > now - now / 20) continue;
    // Among several values of a key, keep the one that saves most; at equal savings, the mildest.
    const auto same =
        std::ranges::find_if(found, [&](const Found& f) { return key_of(f.alternative.change) == key_of(a.change); });
    if (same == found.end())
      found.push_back({std::move(a), *bytes});
    else if (*bytes < same->bytes)
      *same = {std::move(a), *bytes};
  }
  std::ranges::stable_sort(found, {}, &Found::bytes);
  std::vector<MemorySaving> savings;
  std::vector<Alternative> together;
  for (const Found& f : found) {
    savings.push_back({f.alternative.change, f.bytes});
    if (keeps_the_run(f.alternative.change)) together.push_back(f.alternative);
  }
  const auto with_all = [&] {
    Config all = c;
    for (const Alternative& a : together) a.apply(all);
    return bytes_with(all, ranks, device);
  };
  std::optional<int64_t> least = with_all();
  // A change may not help together with the others. With several micro-batches, for example, gradients cannot share the
  // memory of activations.
  for (size_t i = together.size(); least && i-- > 0 && together.size() > 1;) {
    const Alternative left_out = together[i];
    together.erase(together.begin() + static_cast<std::ptrdiff_t>(i));
    const std::optional<int64_t> without = with_all();
    if (without && *without <= *least)
      least = without;
    else
      together.insert(together.begin() + static_cast<std::ptrdiff_t>(i), left_out);
  }
  if (together.size() > 1 && least) {
    std::string changes;
    for (const Alternative& a : together) changes += (changes.empty() ? "" : " with ") + a.change;
    savings.push_back({changes, *least});
  }
  Config sharded = c;
  sharded.parallel.zero_stage = 3;
  const int64_t more = kMoreRanks * ranks;
  sharded.train.global_batch = kMoreRanks * c.train.global_batch;  // the same batch size per rank
  if (const auto bytes = bytes_with(sharded, more, device))
    savings.push_back({fmt::format("parallel.zero_stage=3 on {} ranks", more), *bytes});
  return savings;
}

std::string memory_problem(const MemoryForecast& needed, const FreeMemory& free,
                           std::span<const MemorySaving> savings) {
  const int64_t total = needed.device_bytes();
  if (total <= free.bytes) return {};
  std::string text = fmt::format("{} of memory is needed per rank, and {} is free ({}):", human_bytes(total),
                                 human_bytes(free.bytes), free.limit);
  for (const MemoryOwner& owner : needed.device)
    if (owner.bytes > 0) text += fmt::format("\n  {:<16} {:>10}", owner.name, human_bytes(owner.bytes));
  if (savings.empty()) return text + "\nuse a smaller model or batch, or free some memory";
  text += "\nwhat lowers it:";
  for (const MemorySaving& s : savings)
    text += fmt::format("\n  {}: {}{}", s.change, human_bytes(s.bytes), s.bytes <= free.bytes ? ", which fits" : "");
  const bool fits = std::ranges::any_of(savings, [&](const MemorySaving& s) { return s.bytes <= free.bytes; });
  return fits ? text : text + "\nor a smaller model";
}

std::string memory_refusal(const MemoryForecast& needed, const FreeMemory& free,
                           const std::function<std::vector<MemorySaving>()>& savings) {
  if (needed.device_bytes() <= free.bytes) return {};
  std::vector<MemorySaving> found;
  try {
    found = savings();
  } catch (const std::exception& error) {
    log::debug("what would lower the memory could not be worked out: {}", error.what());
  }
  return memory_problem(needed, free, found);
}

std::string memory_warning(const MemoryForecast& needed, const FreeMemory& free) {
  const int64_t total = needed.device_bytes();
  if (total > free.bytes || static_cast<double>(total) <= kNearlyFull * static_cast<double>(free.bytes)) return {};
  return fmt::format("{} of memory is needed per rank, and {} is free ({}): the run may be ended by the system",
                     human_bytes(total), human_bytes(free.bytes), free.limit);
}

void log_memory_warning(std::span<const std::string> of_ranks) {
  const auto warning = std::ranges::find_if(of_ranks, [](const std::string& text) { return !text.empty(); });
  if (warning != of_ranks.end()) log::warn("{}", *warning);
}

std::string require_training_memory(const Config& c, int64_t ranks, int local_ranks, at::Device device) {
  const MemoryForecast needed = forecast_training(c, ranks, device);
  if (needed.disk > 0) require_free_bytes(disk_folder(c), needed.disk * local_ranks);
  return require(needed, local_ranks, device, [&] { return memory_savings(c, ranks, device); });
}

std::string require_inference_memory(const InferenceSize& s, int64_t ranks, int local_ranks, at::Device device) {
  const MemoryForecast needed = forecast_inference(s, ranks, device);
  return require(needed, local_ranks, device, [&] {
    std::vector<MemorySaving> savings;
    const auto with = [&](const char* change, auto apply) {
      InferenceSize smaller = s;
      apply(smaller);
      const int64_t bytes = forecast_inference(smaller, ranks, device).device_bytes();
      if (bytes <= needed.device_bytes() - needed.device_bytes() / 20) savings.push_back({change, bytes});
    };
    if (s.compute == DType::fp32) with("--precision bf16", [](InferenceSize& x) { x.compute = DType::bf16; });
    if (s.shape.samples > 1) with("--micro-batch 1", [](InferenceSize& x) { x.shape.samples = 1; });
    if (ranks > 1 && s.zero_stage < 3) with("--zero-stage 3", [](InferenceSize& x) { x.zero_stage = 3; });
    return savings;
  });
}

}  // namespace partita::internal
