#include "partita/train/step_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "partita/engine/engine_plan.h"
#include "partita/models/flops.h"
#include "partita/monitor/progress.h"
#include "partita/ops/matmul_rate.h"
#include "partita/optim/optimizer.h"
#include "partita/profile/kernel_families.h"
#include "partita/shard/gradient_plan.h"
#include "partita/train/build_model.h"
#include "partita/train/stages.h"

namespace partita::internal {
namespace {

using enum StepResource;

double part_of_others(int64_t ranks) { return static_cast<double>(ranks - 1) / static_cast<double>(ranks); }

struct Work {
  double flops = 0, matmul_flops = 0, bytes = 0;  // matmul_flops: that take as long
};

// Of forward and backward, without the update.
Work work_of_passes(const StepWork& work, bool on_cpu) {
  Work sum;
  for (const auto& [family, amount] : family_work(work)) {
    if (family == family::kOptimizer) continue;
    sum.flops += amount.flops;
    sum.matmul_flops += amount.flops / (on_cpu ? 1 : amount.speed);
    sum.bytes += amount.bytes;
  }
  return sum;
}

class Load {
 public:
  Load(const Config& c, int64_t ranks, at::Device device, MeshLayout::Position at)
      : c_(c),
        on_cpu_(device.is_cpu()),
        options_(training_options(c, ranks, device, at)),
        plan_(plan_engine(
            training_blocks(c, planning_device(device), at),
            zero_sharding(static_cast<int>(c.parallel.zero_stage), static_cast<int>(sharding_ranks(c, ranks))),
            options_)),
        gradients_(plan_gradients(plan_.units, plan_.sharding, options_.micro_batches)),
        stage_(at.pipeline) {
    load_.micro_batches = options_.micro_batches;
    const double m = micro_batches();
    double updated = 0;
    for (const Unit& unit : plan_.units.units)
      if (unit.trainable && !unit.on_host()) updated += static_cast<double>(unit.layout.slice_count());
    StepWork work = step_work(c, static_cast<int>(ranks), plan_.units);
    work.updated = static_cast<int64_t>(updated);
    load_.update_bytes = family_work(work)[family::kOptimizer].bytes;
    add_passes(work, m);
  }

  StepLoad operator()() {
    add_blocks();
    add_accumulation();
    add_offload();
    add_weights_off_device();
    add_sharding();
    add_exchanges();
    if (c_.parallel.pipeline > 1) add_pipeline();
    return load_;
  }

 private:
  [[nodiscard]] double micro_batches() const { return static_cast<double>(options_.micro_batches); }

  // A forward pass is a third of the layers' work; the head computes everything in its backward pass, and so does
  // recomputation.
  void add_passes(const StepWork& work, double m) {
    StepWork plain = work;
    plain.recompute = Recompute::none;
    plain.recompute_full_layers = 0;
    const Work all = work_of_passes(work, on_cpu_), once = work_of_passes(plain, on_cpu_);
    const std::vector<double> times = block_times(c_);
    const auto layers = static_cast<double>(std::ranges::count(plan_.kinds, BlockKind::layer));
    const double of_head = plan_.kinds.empty() || plan_.kinds.back() != BlockKind::head ? 0 : times.back();
    const double forward = layers > 0 ? layers / (layers + of_head) / 3 : 0;
    load_.flops = all.flops;
    load_.forward.flops = forward * once.matmul_flops / m;
    load_.forward.device_bytes = forward * once.bytes / m;
    load_.backward.flops = all.matmul_flops / m - load_.forward.flops;
    load_.backward.device_bytes = all.bytes / m - load_.forward.device_bytes;
  }

  void add_blocks() {
    const auto layers = static_cast<double>(std::ranges::count(plan_.kinds, BlockKind::layer));
    for (const BlockKind kind : plan_.kinds)
      load_.blocks.push_back(layers > 0 ? (kind == BlockKind::layer ? 1 / layers : 0)
                                        : 1 / static_cast<double>(plan_.kinds.size()));
  }

  // With several micro-batches gradients are added in fp32: read and written, where one alone writes once.
  void add_accumulation() {
    if (options_.micro_batches == 1) return;
    for (const Unit& unit : plan_.units.units)
      if (unit.trainable && !unit.adds_on_host)
        load_.backward.device_bytes += static_cast<double>(unit.layout.count * (8 - size_of(unit.weight)));
  }

  void add_offload() {
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(options_.optimizer);
    const auto tensors = static_cast<double>(1 + optimizer->state_names().size());
    const double reads = optimizer->needs_norms() ? 2 : 1;  // of states and gradients
    const auto state = static_cast<double>(size_of(options_.states));
    std::vector<size_t> order;
    for (size_t u = 0; u < plan_.units.units.size(); ++u)
      if (plan_.units.units[u].trainable && plan_.units.units[u].on_host()) order.push_back(u);
    std::ranges::stable_partition(order, [&](size_t u) { return plan_.units.units[u].pool == BufferPool::persistent; });
    for (const size_t u : order) {
      const Unit& unit = plan_.units.units[u];
      const auto count = static_cast<double>(unit.layout.slice_count());
      const double gradient = count * static_cast<double>(size_of(gradients_.slice_dtype[u]));
      const double weight = count * static_cast<double>(size_of(unit.weight));
      const double states = tensors * state * count;
      UnitUpdate update{
          .first_block = plan_.units.first_block[u],
          .host_bytes = reads * (gradient + states) + states + (options_.states == options_.compute ? 0 : weight),
          .disk_bytes = (unit.states == StatesPlace::disk ? (reads + 1) * states : 0) +
                        (unit.weights == StatesPlace::disk ? weight : 0),
          .up = unit.weights == StatesPlace::device ? weight : 0};
      PassLoad& pass = unit.adds_on_host ? load_.backward : load_.last_backward;
      if (on_cpu_) {  // copies within host memory
        update.host_bytes += 2 * update.up;
        update.up = 0;
        pass.device_bytes += 2 * gradient;
      } else {
        pass.down += gradient;
      }
      if (unit.adds_on_host) load_.backward.host_bytes += 3 * gradient * (micro_batches() - 1) / micro_batches();
      load_.updates.push_back(update);
    }
    load_.early = options_.offload.early_updates;
    const double activations = static_cast<double>(plan_.offload.copied_bytes(plan_.kept_bytes)) / micro_batches();
    load_.forward.down += activations;
    load_.backward.up += activations;
  }

  // Copied to the device for each use.
  void add_weights_off_device() {
    const std::vector<int64_t> gathers = gathers_per_unit(plan_.units, plan_.sharding, plan_.training);
    for (size_t u = 0; u < plan_.units.units.size(); ++u) {
      const Unit& unit = plan_.units.units[u];
      if (unit.weights == StatesPlace::device) continue;
      const double bytes = static_cast<double>(gathers[u] * unit.layout.slice_count() * size_of(unit.weight));
      for (PassLoad* pass : {&load_.forward, &load_.backward}) {
        const double part = bytes / micro_batches() / 2;
        (on_cpu_ ? pass->device_bytes : pass->up) += on_cpu_ ? 2 * part : part;
        if (unit.weights == StatesPlace::disk) pass->disk_bytes += part;
      }
    }
  }

  // Bytes that arrive from other ranks in the collectives of ZeRO.
  void add_sharding() {
    const Sharding& sharding = plan_.sharding;
    const std::vector<int64_t> gathers = gathers_per_unit(plan_.units, sharding, plan_.training);
    const double others = part_of_others(sharding.ranks);
    double gathered = 0;  // for uses
    for (size_t u = 0; u < plan_.units.units.size(); ++u) {
      const Unit& unit = plan_.units.units[u];
      const auto count = static_cast<double>(unit.layout.count);
      double uses = static_cast<double>(gathers[u]);
      const double weights = others * count * static_cast<double>(size_of(unit.weight));
      if (!is_gathered_for_use(unit, sharding)) {
        load_.moved_update += uses * weights;
      } else {
        gathered += uses * weights;
      }
      if (!unit.trainable) continue;
      const double reduced = others * count * static_cast<double>(size_of(unit.gradient));
      PassLoad& pass = gradients_.reduction == Reduction::each_then_add ? load_.backward : load_.last_backward;
      pass.moved += reduced;
      // What several tensor-parallel ranks hold, they add first.
      for (const SharedRun& shared : shared_runs(unit.layout))
        pass.exchanged +=
            2 * part_of_others(shared.holders) * static_cast<double>(shared.run.count * size_of(unit.gradient));
      load_.last_backward.moved += 2 * part_of_others(sharding.replicas) *
                                   static_cast<double>(unit.layout.slice_count() * size_of(unit.gradient_sum));
    }
    load_.forward.moved += gathered / micro_batches() / 2;
    load_.backward.moved += gathered / micro_batches() / 2;
  }

  // Rows of the residual stream that tensor-parallel ranks gather or sum, a sum without sequence parallelism counting
  // as two; keys and values of context-parallel ranks.
  void add_exchanges() {
    const auto rows = static_cast<double>(options_.shape.rows());
    const auto item = static_cast<double>(size_of(options_.compute));
    const double stream = part_of_others(c_.parallel.tensor) * rows * static_cast<double>(c_.model.hidden_size) * item;
    const double keys = part_of_others(c_.parallel.context) * 2 * rows * static_cast<double>(c_.parallel.context) *
                        static_cast<double>(c_.model.key_value_heads() * c_.model.head_size()) /
                        static_cast<double>(c_.parallel.tensor) * item;
    const bool split = options_.tensor.splits_rows(options_.shape.rows());
    for (size_t b = 0; b < plan_.kinds.size(); ++b) {
      const bool ends = plan_.kinds[b] != BlockKind::layer;
      if (ends) {
        load_.forward.exchanged += plan_.kinds[b] == BlockKind::embedding ? (split ? 1 : 2) * stream : 0;
        load_.backward.exchanged += plan_.kinds[b] == BlockKind::head ? 2 * stream : split ? stream : 0;
        continue;
      }
      load_.forward.exchanged += 4 * stream + keys;
      // With split rows, the inputs of two linears are gathered again for their weight gradients. What the last layer
      // recomputes is still there from forward.
      double again = split ? 6 : 4;
      const bool last = c_.parallel.pipeline == 1 && b + 2 == plan_.kinds.size();
      const bool full = plan_.recompute[b] == Recompute::full && !last;
      if (full) again += split ? 3 : 2;
      if (plan_.recompute[b] == Recompute::mlp && !last) again += split ? 1 : 0;
      load_.backward.exchanged += again * stream + (full ? 3 : 2) * keys;
    }
  }

  // The bubble of 1F1B, of which delayed weight gradients fill about two thirds (arXiv 2401.10241).
  void add_pipeline() {
    const double stages = static_cast<double>(c_.parallel.pipeline), chunks = static_cast<double>(pipeline_chunks(c_));
    load_.bubble = (stages - 1) / (chunks * micro_batches()) / (delays_weights(c_) ? 3 : 1);
    const double message = 2 * static_cast<double>(options_.tensor.stream_rows(options_.shape.rows())) *
                           static_cast<double>(c_.model.hidden_size * size_of(options_.compute));
    const bool first = stage_ == 0, last = stage_ == c_.parallel.pipeline - 1;
    load_.forward.moved += (first ? chunks - 1 : chunks) * message;
    load_.backward.moved += (last ? chunks - 1 : chunks) * message;
  }

  const Config& c_;
  bool on_cpu_;
  EngineOptions options_;
  EnginePlan plan_;
  GradientPlan gradients_;
  int64_t stage_;
  StepLoad load_;
};

std::string_view text_of(StepResource resource) {
  constexpr std::array<std::string_view, kStepResources> kTexts = {
      "compute",     "device memory", "the link between device and host",
      "host memory", "the disk",      "communication between ranks"};
  return kTexts[static_cast<size_t>(resource)];
}

// Three digits: "8.25", "40.1", "437".
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string amount_text(double amount, const char* unit) {
  constexpr std::array kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  size_t p = 0;
  for (; p + 1 < kPrefixes.size() && amount >= 999.5; ++p) amount /= 1000;
  return fmt::format("{} {}{}", three_digits(amount), kPrefixes[p], unit);
}

std::string seconds_text(double seconds) {
  return seconds >= 0.9995 ? three_digits(seconds) + " s" : three_digits(1e3 * seconds) + " ms";
}

}  // namespace

// Copies of pinned memory: 55 GB/s each way alone, 45 and 50 together. AdamW of the host: 128 GB/s on 16 threads.
StepRates default_rates(DType dtype, at::Device device) {
  StepRates r;
  if (device.is_cpu()) {
    r[compute] = dtype == DType::fp32 ? 0.13e12 : 0.38e12;
    r[device_memory] = r[link] = r[host_memory] = 27e9;
    r[disk] = 2e9;
    r[network] = 5e9;
    return r;
  }
  const double wide = peak_flops("H100", DType::fp32) / peak_flops("H100", DType::bf16);
  r[compute] = kMatmulRate * (dtype == DType::fp32 ? wide : 1);
  r[device_memory] = kDeviceMemoryRate;
  r[link] = 50e9;
  r[host_memory] = 128e9;
  r[disk] = 5e9;
  r[network] = 200e9;
  return r;
}

StepRates rates_here(DType dtype, at::Device device) {
  StepRates r = default_rates(dtype, device);
  if (device.is_cpu()) r[compute] = matmul_rate(dtype);
  return r;
}

StepLoad step_load(const Config& config, int64_t ranks, at::Device device, MeshLayout::Position at) {
  Config c = config;
  c.kernels.cuda_graph = Switch::off;  // no part of it
  return Load(c, ranks, device, at)();
}

StepForecast forecast_step(const Config& c, int64_t ranks, at::Device device, const StepRates& rates) {
  StepForecast longest;
  for (int stage = 0; stage < c.parallel.pipeline; ++stage) {
    StepForecast one{.load = step_load(c, ranks, device, {.pipeline = stage}), .time = {}};
    one.time = step_time(one.load, rates);
    if (stage == 0 || one.time.seconds > longest.time.seconds) longest = std::move(one);
  }
  return longest;
}

std::string_view key_of(StepResource resource) {
  constexpr std::array<std::string_view, kStepResources> kKeys = {"compute",     "device_memory", "link",
                                                                  "host_memory", "disk",          "network"};
  return kKeys[static_cast<size_t>(resource)];
}

std::string step_text(const StepForecast& f, const StepRates& rates, int64_t tokens) {
  std::string text = "per step and rank           amount            at         time\n";
  const auto line = [&](std::string_view name, double amount, StepResource resource, const char* unit, double time) {
    if (amount <= 0) return;
    text += fmt::format("  {:<20}  {:>11}  {:>12}  {:>11}\n", name, amount_text(amount, unit),
                        amount_text(rates[resource], unit) + "/s", seconds_text(time));
  };
  const auto row = [&](std::string_view name, double amount, StepResource resource, const char* unit) {
    line(name, amount, resource, unit, amount / rates[resource]);
  };
  line("compute", f.load.flops, compute, "FLOP", f.load.total(compute) / rates[compute]);
  row("device memory", f.load.total(device_memory), device_memory, "B");
  row("device to host", f.load.down(), link, "B");
  row("host to device", f.load.up(), link, "B");
  row("host memory", f.load.total(host_memory), host_memory, "B");
  row("disk", f.load.total(disk), disk, "B");
  row("other ranks", f.load.total(network), network, "B");
  text += fmt::format("step: about {}, {} tokens/s; bound by {}", seconds_text(f.time.seconds),
                      human_count(static_cast<double>(tokens) / f.time.seconds), text_of(f.time.bound));
  if (f.time.unbound_seconds < 0.995 * f.time.seconds)
    text += fmt::format(" (without it {})", seconds_text(f.time.unbound_seconds));
  return text;
}

}  // namespace partita::internal
