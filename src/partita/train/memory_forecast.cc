#include "partita/train/memory_forecast.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/device/device_use.h"
#include "partita/engine/engine_memory.h"
#include "partita/engine/engine_plan.h"
#include "partita/models/model.h"
#include "partita/shard/gradient_plan.h"
#include "partita/train/step_forecast.h"
#include "partita/train/token_samples.h"

namespace partita::internal {
namespace {

constexpr int kBatchArrays = 3;       // tokens, labels and positions, all int32
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

// Buffers for gradients received from other ranks to be summed on the CPU. Each slot may have a reduction on its way:
// at stages 0 and 1 that of every unit.
int64_t sum_bytes(const std::vector<std::unique_ptr<Block>>& blocks, const Config& c, int64_t ranks,
                  MeshLayout::Position at) {
  const int64_t data = sharding_ranks(c, ranks), tensor = c.parallel.tensor, context = c.parallel.context;
  // Rows of the residual stream, and keys and values, of which each rank has a partial sum.
  const int64_t keys = 2 * c.model.key_value_heads() * c.model.head_size();
  const int64_t rows = tokens_of_micro_batch(c) * size_of(c.precision.compute) *
                       std::max(c.model.hidden_size / tensor * (tensor - 1), keys * (context - 1));
  if (data == 1 && tensor == 1) return rows;
  const EngineOptions options = training_options(c, ranks, at::kCPU, at);
  const EnginePlan plan = plan_engine(blocks, sharding_of(c.parallel.zero_stage, data), options);
  // Gradients of what several tensor-parallel ranks hold.
  int64_t shared = 0;
  for (const Unit& unit : plan.units.units)
    for (const SharedRun& run : unit.trainable ? shared_runs(unit.layout) : std::vector<SharedRun>())
      shared = std::max(shared, run.run.count * size_of(unit.gradient) / run.holders * (run.holders - 1));
  if (data == 1) return std::max(rows, shared);
  const SlotPlan slots = plan_gradients(plan.units, plan.sharding, options.micro_batches).slots;
  int64_t sum = 0;
  for (size_t s = 0; s < slots.slot_count.size(); ++s)
    sum += slots.slot_count[s] * size_of(slots.slot_dtype[s]) / data * (data - 1);
  return std::max(sum, shared);
}

std::string require(const MemoryForecast& needed, int local_ranks, at::Device device,
                    const std::function<std::vector<MemoryChange>(const MemoryRoom&)>& changes) {
  const FreeMemory host = free_for_process(memory_limits(), local_ranks);
  const FreeMemory on_device = device.is_cpu() ? host : FreeMemory{free_device_memory(device), "the memory of the GPU"};
  MemoryRoom room{.device = on_device.bytes};
  if (!device.is_cpu()) room.host = host.bytes;
  if (const std::string problem = memory_refusal(needed, on_device, [&] { return changes(room); }); !problem.empty())
    throw Error(problem);
  const MemoryForecast on_host{.device = {{"offloaded", needed.host}}};
  if (const std::string problem = memory_problem(on_host, host, {}); !device.is_cpu() && !problem.empty())
    fail(
        "{}\nuse smaller fractions in memory.optimizer and memory.parameters, disk in place of host there, fewer "
        "layers "
        "in memory.offload_activations, or memory.gradients_on_host=false",
        problem);
  return memory_warning(needed, on_device);
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

MemoryForecast forecast_rank(const Config& config, int64_t ranks, at::Device device, MeshLayout::Position at) {
  Config c = config;
  c.kernels.cuda_graph = Switch::off;  // needs no memory of its own
  const std::vector<std::unique_ptr<Block>> blocks = training_blocks(c, planning_device(device), at);
  const EngineMemory m = predict_memory(blocks, sharding_of(c.parallel.zero_stage, sharding_ranks(c, ranks)),
                                        training_options(c, ranks, device, at));
  MemoryForecast forecast{memory_owners(m), m.host, m.disk};
  forecast.device.push_back({"batches", batch_bytes(c, ranks)});
  if (c.model.kind == ModelKind::llama)  // a cosine and a sine for each pair of channels
    forecast.device.push_back({"rotary positions", c.model.max_length * c.model.head_size() * 4});
  if (!device.is_cpu()) return forecast;
  forecast.device.push_back({"sums over ranks", sum_bytes(blocks, c, ranks, at)});
  // Gradients and working buffers of states on disk.
  forecast.device.push_back({"offload", std::exchange(forecast.host, 0)});
  return forecast;
}

std::vector<MemoryForecast> forecast_stages(const Config& c, int64_t ranks, at::Device device) {
  std::vector<MemoryForecast> stages(static_cast<size_t>(c.parallel.pipeline));
  for (int pipeline = 0; pipeline < c.parallel.pipeline; ++pipeline)
    // The first tensor-parallel rank has the largest part of tables, the last one the most heads.
    for (const int tensor : {0, static_cast<int>(c.parallel.tensor) - 1}) {
      MemoryForecast& most = stages[static_cast<size_t>(pipeline)];
      MemoryForecast one = forecast_rank(c, ranks, device, {.tensor = tensor, .pipeline = pipeline});
      if (one.device_bytes() > most.device_bytes()) most = std::move(one);
    }
  return stages;
}

MemoryTimeline forecast_timeline(const Config& config, int64_t ranks, at::Device device, int stage) {
  Config c = config;
  c.kernels.cuda_graph = Switch::off;
  const MeshLayout::Position at{.pipeline = stage};
  return memory_timeline(training_blocks(c, planning_device(device), at),
                         sharding_of(c.parallel.zero_stage, sharding_ranks(c, ranks)),
                         training_options(c, ranks, device, at));
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
  const std::vector<std::unique_ptr<Block>> blocks = make_blocks(s.model, s.compute, s.lora, planning_device(device));
  const EngineMemory m =
      predict_memory(blocks, sharding_of(s.zero_stage, ranks), inference_options(s.model, s.compute, s.shape, device));
  const int64_t cached = 2 * s.model.layers * s.model.key_value_heads() * s.model.head_size() * s.cached_tokens;
  return {{{"weights", s.holds_weights ? 0 : m.weights},
           {"temporaries", m.temporaries},
           {"keys and values", cached * size_of(s.compute)}}};
}

std::string memory_problem(const MemoryForecast& needed, const FreeMemory& free,
                           std::span<const MemoryChange> changes) {
  const int64_t total = needed.device_bytes();
  if (total <= free.bytes) return {};
  std::string text = fmt::format("{} of memory is needed per rank, and {} is free ({}):", human_bytes(total),
                                 human_bytes(free.bytes), free.limit);
  for (const MemoryOwner& owner : needed.device)
    if (owner.bytes > 0) text += fmt::format("\n  {:<16} {:>10}", owner.name, human_bytes(owner.bytes));
  if (changes.empty()) return text + "\nuse a smaller model or batch, or free some memory";
  text += "\nwhat lowers it:";
  for (const MemoryChange& change : changes)
    text += fmt::format("\n  {}{}", change.text(), change.fits ? ", which fits" : "");
  const bool fits = std::ranges::any_of(changes, &MemoryChange::fits);
  return fits ? text : text + "\nor shorter sequences, or a smaller model";
}

std::string memory_refusal(const MemoryForecast& needed, const FreeMemory& free,
                           const std::function<std::vector<MemoryChange>()>& changes) {
  if (needed.device_bytes() <= free.bytes) return {};
  std::vector<MemoryChange> found;
  try {
    found = changes();
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
  return require(needed, local_ranks, device, [&](const MemoryRoom& room) {
    return memory_changes(c, ranks, device, room, rates_here(c.precision.compute, device));
  });
}

std::string require_inference_memory(const InferenceSize& s, int64_t ranks, int local_ranks, at::Device device) {
  const MemoryForecast needed = forecast_inference(s, ranks, device);
  return require(needed, local_ranks, device, [&](const MemoryRoom& room) {
    std::vector<MemoryChange> changes;
    const auto with = [&](const char* change, auto apply) {
      InferenceSize smaller = s;
      apply(smaller);
      const int64_t bytes = forecast_inference(smaller, ranks, device).device_bytes();
      if (bytes <= needed.device_bytes() - needed.device_bytes() / 20)
        changes.push_back({.settings = {change}, .bytes = bytes, .fits = bytes <= room.device});
    };
    if (s.compute == DType::fp32) with("--precision bf16", [](InferenceSize& x) { x.compute = DType::bf16; });
    if (s.shape.samples > 1) with("--micro-batch 1", [](InferenceSize& x) { x.shape.samples = 1; });
    if (ranks > 1 && s.zero_stage < 3) with("--zero-stage 3", [](InferenceSize& x) { x.zero_stage = 3; });
    return changes;
  });
}

}  // namespace partita::internal
