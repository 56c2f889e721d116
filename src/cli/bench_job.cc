#include "cli/bench_job.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/random.h"
#include "partita/base/timer.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/comm/host_threads.h"
#include "partita/device/device_use.h"
#include "partita/device/stream_delay.h"
#include "partita/models/flops.h"
#include "partita/nn/context_parallel.h"
#include "partita/ops/deterministic.h"
#include "partita/profile/matmul_tuning.h"
#include "partita/profile/profile.h"
#include "partita/train/layout_text.h"
#include "partita/train/memory_forecast.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr int64_t kProfileSteps = 3;

Batch random_batch(const Config& c, uint64_t seed) {
  const int64_t samples = c.train.micro_batch, length = c.train.sequence_length;
  const auto vocabulary = static_cast<uint32_t>(c.model.vocab_size);
  Batch batch;
  for (at::Tensor* t : {&batch.tokens, &batch.labels, &batch.positions}) *t = at::empty({samples, length}, at::kInt);
  for (int64_t i = 0; i < samples * length; ++i) {
    const auto bits = philox({static_cast<uint32_t>(i), 0, 0, 0}, philox_key(seed));
    batch.tokens.data_ptr<int32_t>()[i] = static_cast<int32_t>(bits[0] % vocabulary);
    batch.labels.data_ptr<int32_t>()[i] = static_cast<int32_t>(bits[1] % vocabulary);
    batch.positions.data_ptr<int32_t>()[i] = static_cast<int32_t>(i % length);
  }
  for (int64_t i = 0; i < samples; ++i) batch.samples.push_back(i);
  return batch;
}

}  // namespace

Config bench_config(const BenchArguments& a, int ranks) {
  Config small;
  small.model = {.layers = 6,
                 .hidden_size = 384,
                 .heads = 6,
                 .vocab_size = 4096,
                 .dropout = 0,
                 .embedding_dropout = 0,
                 .attention_dropout = 0};
  small.train.sequence_length = 256;
  small.train.micro_batch = 8;
  ConfigSources sources;
  Config c = load_config(a.file, a.settings, &sources, a.file.empty() ? small : Config());
  complete_model(c);
  if (!sources.contains("model.max_length")) c.model.max_length = c.train.sequence_length;
  if (!sources.contains("train.global_batch")) c.train.global_batch = c.train.micro_batch * data_ranks(c, ranks);
  validate_step(c, ranks, &sources);
  return c;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

BenchJob::BenchJob(const BenchArguments& a)
    : arguments(a),
      config(bench_config(a, world.size())),
      device(select_device(config.train.device, world)),
      mesh(world, mesh_sizes(config, world.size()), device) {
  log::configure(world.rank(), world.size());
  configure_threads(world, config.train.threads);
  set_deterministic(config.kernels.deterministic);
  set_stream_delays(config.debug.delay_streams, static_cast<uint64_t>(world.rank()));
  // Refused before batches are made.
  (void)tunes_matmul(config.kernels.tune_matmul, device.is_cuda(), is_deterministic(), a.steps);
  for (int64_t m = 0; m < accumulation_steps(config, world.size()); ++m)
    batches.push_back(
        take_pieces(random_batch(config, static_cast<uint64_t>(mesh.data().rank() + mesh.data().size() * m)),
                    context_split(config, mesh.position().context)));
  // The first step may take minutes.
  const TrainConfig& t = config.train;
  log::info(
      "timing {}, {} layers of {} channels, {} samples of {} tokens a step, on {}: {} warm-up and {} timed step{}",
      name_of(config.model.kind), config.model.layers, config.model.hidden_size, t.global_batch, t.sequence_length,
      layout_text(config, world.size()), a.warmup, a.steps, a.steps == 1 ? "" : "s");
}

namespace {

// Error: not enough free memory.
Config fitting_config(const BenchJob& job, Recompute recompute) {
  const int ranks = job.world.size();
  Config config = job.config;
  config.memory.recompute = recompute;
  job.mesh.world().barrier();  // all ranks have freed the memory of the previous run
  CommunicatorPeers peers(job.mesh.world());
  // Collective: no rank allocates while another still measures free memory.
  if (config.debug.check_memory) {
    const std::vector<std::string> warnings =
        agree(peers, [&] { return require_training_memory(config, ranks, job.world.launch().local_size, job.device); });
    if (job.world.rank() == 0) log_memory_warning(warnings);
  }
  return config;
}

}  // namespace

BenchModel::BenchModel(BenchJob& job, Recompute recompute)
    : job_(job), config_(fitting_config(job, recompute)), engine_(build_training_engine(config_, job.mesh)) {
  engine_->initialize(0);
}

void BenchModel::step() {
  job_.mesh.world().barrier();
  const Timer timer;
  const auto k = static_cast<int64_t>(losses_.size());
  const StepResult r = engine_->step(
      job_.batches, {.step = k, .update = k, .learning_rate = 1e-4F, .clip = 1.0F, .previous_norm = grad_norm_});
  if (!r.skipped) grad_norm_ = r.grad_norm;
  if (steps() >= job_.arguments.warmup) seconds_.push_back(timer.seconds());
  losses_.push_back(r.loss);
}

void BenchModel::tune() {
  MatmulTuner tuner(job_.mesh.world(), {.name = matmul_library(job_.device)},
                    {.kept = {},
                     .shared = config_.kernels.tuning_file,
                     .tune = tunes_matmul(config_.kernels.tune_matmul, job_.device.is_cuda(), is_deterministic(),
                                          job_.arguments.steps),
                     .record_steps = [this](bool on) { engine_->record_steps(on); }});
  const std::vector<double> timed = seconds_;
  for (; tuner.running(); ++uncounted_steps_) {
    tuner.before_step();
    step();
    tuner.after_step();
  }
  seconds_ = timed;
  tuned_products_ = tuner.products();
}

void BenchModel::profile() {
  const std::filesystem::path& file = job_.arguments.profile;
  if (file.empty()) return;
  Profiler profiler({.device = job_.device,
                     .trace = file,
                     .table = file.string() + ".txt",
                     .steps = job_.world.rank() == 0 ? kProfileSteps : 0,
                     .after = 0,
                     .work = step_work(config_, job_.world.size(), engine_->plan())});
  const std::vector<double> timed = seconds_;
  for (int64_t i = 0; i < kProfileSteps; ++i, ++uncounted_steps_) {
    profiler.before_step();
    step();
    profiler.after_step();
  }
  seconds_ = timed;
}

int64_t BenchModel::activation_bytes() const {
  const EngineMemory m = engine_->memory();
  return m.activations + m.temporaries;
}

nlohmann::ordered_json BenchModel::json() const {
  const Config& c = config_;
  const EngineMemory m = engine_->memory();
  const auto tokens = static_cast<double>(c.train.global_batch * c.train.sequence_length);
  const double middle = median(seconds_);
  const auto [least, most] = std::ranges::minmax(seconds_);
  nlohmann::ordered_json line = {{"model", name_of(c.model.kind)},
                                 {"layers", c.model.layers},
                                 {"hidden_size", c.model.hidden_size},
                                 {"heads", c.model.heads},
                                 {"vocab_size", c.model.vocab_size},
                                 {"sequence_length", c.train.sequence_length},
                                 {"micro_batch", c.train.micro_batch},
                                 {"global_batch", c.train.global_batch},
                                 {"device", job_.device.is_cuda() ? "cuda" : "cpu"},
                                 {"compute", name_of(c.precision.compute)},
                                 {"states", name_of(c.precision.states)},
                                 {"fp8", name_of(c.precision.fp8)},
                                 {"zero_stage", c.parallel.zero_stage},
                                 {"ranks", job_.world.size()},
                                 {"tensor", c.parallel.tensor},
                                 {"plan", c.parallel.tensor > 1 ? replicated_text(tensor_division(c)) : ""},
                                 {"context", c.parallel.context},
                                 {"sequence", engine_->sequence_parallel()},
                                 {"pipeline", c.parallel.pipeline},
                                 {"schedule", name_of(c.parallel.schedule)},
                                 {"threads", at::get_num_threads()},
                                 {"recompute", name_of(c.memory.recompute)},
                                 {"recompute_full_layers", c.memory.recompute_full_layers},
                                 {"tokens_per_s", tokens / middle},
                                 {"tokens_per_s_rank", tokens / middle / job_.world.size()},
                                 {"ms", middle * 1e3},
                                 {"ms_min", least * 1e3},
                                 {"ms_max", most * 1e3},
                                 {"steps", job_.arguments.steps},
                                 {"tuned_products", tuned_products_},
                                 {"params_m", static_cast<double>(parameter_count(c.model)) / 1e6},
                                 {"state_bytes", m.weights + m.gradients - m.shared + m.master + m.optimizer},
                                 {"optimizer_place", c.memory.optimizer},
                                 {"parameters_place", c.memory.parameters},
                                 {"gradients_on_host", c.memory.gradients_on_host},
                                 {"early_updates", c.memory.early_updates},
                                 {"offload_activations", c.memory.offload_activations},
                                 {"host_bytes", m.host},
                                 {"activation_bytes", activation_bytes()},
                                 {"loss_first", losses_.front()},
                                 {"loss_last", losses_.back()}};
  add_device_figures(line);
  return line;
}

void BenchModel::add_device_figures(nlohmann::ordered_json& line) const {
  const Config& c = config_;
  const int64_t length = c.train.sequence_length;
  const double rate = line.at("tokens_per_s_rank").get<double>();
  const double full = rate * training_flops(c.model, length, AttentionCount::full);
  const double causal = rate * training_flops(c.model, length, AttentionCount::causal);
  const double again = rate * repeated_flops(c.model, length, c.memory.recompute, c.memory.recompute_full_layers);
  line["tflops_full"] = full / 1e12;
  line["tflops_causal"] = causal / 1e12;
  const DeviceUse use = device_use(job_.device);
  if (use.name.empty()) return;
  line["card"] = use.name;
  if (const double peak = peak_flops(use.name, c.precision.compute); peak > 0) {
    line["peak_tflops"] = peak / 1e12;
    line["mfu_full"] = 100 * full / peak;
    line["mfu_causal"] = 100 * causal / peak;
    line["hfu_full"] = 100 * (full + again) / peak;
  }
  at::Tensor bytes = at::tensor({use.allocated, use.reserved}, at::kLong);
  CpuStream stream;
  job_.mesh.world().all_reduce(bytes, Reduce::max, stream).wait();
  line["peak_gib"] = static_cast<double>(bytes.data_ptr<int64_t>()[0]) / (1 << 30);
  line["reserved_gib"] = static_cast<double>(bytes.data_ptr<int64_t>()[1]) / (1 << 30);
}

}  // namespace partita::cli
