#include "cli/bench_job.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <charconv>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/random.h"
#include "partita/base/timer.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/comm/host_threads.h"
#include "partita/device/device_use.h"
#include "partita/device/stream_delay.h"
#include "partita/models/flops.h"
#include "partita/ops/deterministic.h"
#include "partita/profile/matmul_tuning.h"
#include "partita/profile/profile.h"
#include "partita/train/memory_forecast.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr int64_t kProfileSteps = 3;

Batch random_batch(const BenchShape& s, uint64_t seed) {
  Batch batch;
  for (at::Tensor* t : {&batch.tokens, &batch.labels, &batch.positions}) *t = at::empty({s.batch, s.length}, at::kInt);
  for (int64_t i = 0; i < s.batch * s.length; ++i) {
    const auto bits = philox({static_cast<uint32_t>(i), 0, 0, 0}, philox_key(seed));
    batch.tokens.data_ptr<int32_t>()[i] = static_cast<int32_t>(bits[0] % static_cast<uint32_t>(s.vocabulary));
    batch.labels.data_ptr<int32_t>()[i] = static_cast<int32_t>(bits[1] % static_cast<uint32_t>(s.vocabulary));
    batch.positions.data_ptr<int32_t>()[i] = static_cast<int32_t>(i % s.length);
  }
  for (int64_t i = 0; i < s.batch; ++i) batch.samples.push_back(i);
  return batch;
}

}  // namespace

BenchShape parse_bench_shape(const std::string& text) {
  std::vector<int64_t> numbers;
  const char *at = text.data(), *end = text.data() + text.size();
  while (true) {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 1) break;
    numbers.push_back(value);
    if (next == end) at = end;
    if (next == end || *next != ',') break;
    at = next + 1;
  }
  if (at != end || numbers.size() != 6)
    throw UsageError("--shape " + text + ": expected six numbers, layers,heads,width,length,batch,vocabulary");
  return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
}

Config bench_config(const BenchArguments& a, const BenchShape& s, Recompute recompute, int ranks) {
  Config c;
  c.model = {.kind = find_enum<ModelKind>(a.model).value(),
             .layers = s.layers,
             .hidden_size = s.width,
             .heads = s.heads,
             .kv_heads = a.kv_heads,
             .ffn_hidden_size = a.ffn,
             .vocab_size = s.vocabulary,
             .max_length = s.length,
             .dropout = a.dropout,
             .embedding_dropout = a.dropout,
             .attention_dropout = a.dropout};
  c.train.sequence_length = s.length;
  c.train.micro_batch = s.batch;
  // Sizes beyond any memory are reported by the configuration's own checks.
  if (__builtin_mul_overflow(s.batch * ranks, a.micro_batches, &c.train.global_batch))
    fail("--micro-batches {} x {} samples: too many", a.micro_batches, s.batch * ranks);
  c.precision.compute = parse_dtype(a.precision);
  c.precision.states = parse_dtype(a.states);
  c.precision.fp8 = find_enum<Fp8Recipe>(a.fp8).value();
  c.memory.recompute = recompute;
  c.kernels.cuda_graph = find_enum<Switch>(a.cuda_graph).value();
  c.memory.offload_optimizer = a.offload_optimizer;
  c.memory.offload_activations = a.offload_activations;
  c.memory.recompute_full_layers = a.full_layers;
  c.debug.poison = a.poison;
  c.parallel.zero_stage = a.zero;
  validate_step(c, ranks);
  return c;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

BenchJob::BenchJob(const BenchArguments& a) : arguments(a), shape(parse_bench_shape(a.shape)), mesh(world, device) {
  log::configure(world.rank(), world.size());
  configure_threads(world, 0);
  if (a.tune && (device.is_cpu() || a.deterministic))
    fail("--tune {}: there is nothing to choose; leave it out", device.is_cpu() ? "on the CPU" : "--deterministic");
  (void)bench_config(a, shape, Recompute::none, world.size());  // raises configuration errors before batches are made
  set_deterministic(a.deterministic);
  set_stream_delays(a.delay_streams, static_cast<uint64_t>(world.rank()));
  for (int64_t m = 0; m < a.micro_batches; ++m)
    batches.push_back(random_batch(shape, static_cast<uint64_t>(world.rank() + world.size() * m)));
}

namespace {

// Error: not enough free memory.
Config fitting_config(const BenchJob& job, Recompute recompute) {
  const int ranks = job.world.size();
  const Config config = bench_config(job.arguments, job.shape, recompute, ranks);
  job.mesh.data().barrier();  // all ranks have freed the memory of the previous run
  CommunicatorPeers peers(job.mesh.data());
  // Collective: no rank allocates while another still measures free memory.
  const std::vector<std::string> warnings =
      agree(peers, [&] { return require_training_memory(config, ranks, job.world.launch().local_size, job.device); });
  if (job.world.rank() == 0) log_memory_warning(warnings);
  return config;
}

}  // namespace

BenchModel::BenchModel(BenchJob& job, Recompute recompute)
    : job_(job), config_(fitting_config(job, recompute)), engine_(build_training_engine(config_, job.mesh)) {
  engine_->initialize(0);
}

void BenchModel::step() {
  job_.mesh.data().barrier();
  const Timer timer;
  const auto k = static_cast<int64_t>(losses_.size());
  const StepResult r = engine_->step(job_.batches, {.step = k, .update = k, .learning_rate = 1e-4F, .clip = 1.0F});
  if (steps() >= job_.arguments.warmup) seconds_.push_back(timer.seconds());
  losses_.push_back(r.loss);
}

void BenchModel::tune() {
  MatmulTuner tuner(
      job_.mesh.data(), {.name = matmul_library(job_.device)},
      {.kept = job_.arguments.tuning_file, .shared = {}, .tune = job_.arguments.tune, .record_steps = [this](bool on) {
         engine_->record_steps(on);
       }});
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
  const std::string& file = job_.arguments.profile;
  if (file.empty()) return;
  Profiler profiler({.device = job_.device,
                     .trace = file,
                     .table = file + ".txt",
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
  const BenchArguments& a = job_.arguments;
  const EngineMemory m = engine_->memory();
  const auto tokens = static_cast<double>(config_.train.global_batch * job_.shape.length);
  const double middle = median(seconds_);
  const auto [least, most] = std::ranges::minmax(seconds_);
  nlohmann::ordered_json line = {{"model", a.model},
                                 {"shape", a.shape},
                                 {"device", a.device},
                                 {"precision", a.precision},
                                 {"states", a.states},
                                 {"fp8", a.fp8},
                                 {"zero", a.zero},
                                 {"ranks", job_.world.size()},
                                 {"threads", at::get_num_threads()},
                                 {"micro_batches", a.micro_batches},
                                 {"recompute", name_of(config_.memory.recompute)},
                                 {"recompute_full_layers", a.full_layers},
                                 {"tokens_per_s", tokens / middle},
                                 {"tokens_per_s_rank", tokens / middle / job_.world.size()},
                                 {"ms", middle * 1e3},
                                 {"ms_min", least * 1e3},
                                 {"ms_max", most * 1e3},
                                 {"steps", a.steps},
                                 {"tuned_products", tuned_products_},
                                 {"params_m", static_cast<double>(parameter_count(config_.model)) / 1e6},
                                 {"state_bytes", m.weights + m.gradients - m.shared + m.master + m.optimizer},
                                 {"offload_optimizer", a.offload_optimizer},
                                 {"offload_activations", a.offload_activations},
                                 {"host_bytes", m.host},
                                 {"activation_bytes", activation_bytes()},
                                 {"loss_first", losses_.front()},
                                 {"loss_last", losses_.back()}};
  add_device_figures(line);
  return line;
}

void BenchModel::add_device_figures(nlohmann::ordered_json& line) const {
  const Config& c = config_;
  const int64_t length = job_.shape.length;
  const double rate = line.at("tokens_per_s_rank").get<double>();
  const double full = rate * training_flops(c.model, length, AttentionCount::full);
  const double causal = rate * training_flops(c.model, length, AttentionCount::causal);
  const double again =
      rate * repeated_flops(c.model, length, keep_of(c.memory.recompute), c.memory.recompute_full_layers);
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
  job_.mesh.data().all_reduce(bytes, Reduce::max, stream).wait();
  line["peak_gib"] = static_cast<double>(bytes.data_ptr<int64_t>()[0]) / (1 << 30);
  line["reserved_gib"] = static_cast<double>(bytes.data_ptr<int64_t>()[1]) / (1 << 30);
}

}  // namespace partita::cli
