// partita bench: the speed and memory of training steps, on random tokens.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/base/random.h"
#include "partita/base/timer.h"
#include "partita/comm/device_communicator.h"
#include "partita/comm/world.h"
#include "partita/ops/deterministic.h"
#include "partita/train/build_model.h"

namespace {

struct Arguments {
  std::string shape = "6,6,384,256,8,4096";
  std::string model = "gpt2", precision = "fp32", states = "fp32", recompute = "none", device = "cpu";
  int64_t kv_heads = 0, zero = 0, micro_batches = 1, steps = 14, warmup = 4;
  float dropout = 0;
  bool json = false, deterministic = false;
};

struct StepShape {
  int64_t layers, heads, width, length, batch, vocabulary;
};

StepShape parse_shape(const std::string& text) {
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
    throw partita::UsageError("--shape " + text + ": expected six numbers, layers,heads,width,length,batch,vocabulary");
  return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
}

partita::Config make_config(const Arguments& a, const StepShape& s, partita::Recompute recompute, int ranks) {
  partita::Config c;
  c.model = {.kind = a.model == "llama" ? partita::ModelKind::llama : partita::ModelKind::gpt2,
             .layers = s.layers,
             .hidden_size = s.width,
             .heads = s.heads,
             .kv_heads = a.kv_heads,
             .vocab_size = s.vocabulary,
             .max_length = s.length,
             .dropout = a.dropout,
             .embedding_dropout = a.dropout,
             .attention_dropout = a.dropout};
  c.train.sequence_length = s.length;
  c.train.micro_batch = s.batch;
  c.train.global_batch = s.batch * ranks * a.micro_batches;
  c.train.precision = partita::parse_dtype(a.precision);
  c.train.states = partita::parse_dtype(a.states);
  c.train.recompute = recompute;
  c.parallel.zero_stage = a.zero;
  partita::validate(c.model);
  return c;
}

partita::Batch random_batch(const StepShape& s, uint64_t seed) {
  partita::Batch batch;
  for (at::Tensor* t : {&batch.tokens, &batch.labels, &batch.positions}) *t = at::empty({s.batch, s.length}, at::kInt);
  for (int64_t i = 0; i < s.batch * s.length; ++i) {
    const auto bits = partita::philox({static_cast<uint32_t>(i), 0, 0, 0}, partita::philox_key(seed));
    batch.tokens.data_ptr<int32_t>()[i] = static_cast<int32_t>(bits[0] % static_cast<uint32_t>(s.vocabulary));
    batch.labels.data_ptr<int32_t>()[i] = static_cast<int32_t>(bits[1] % static_cast<uint32_t>(s.vocabulary));
    batch.positions.data_ptr<int32_t>()[i] = static_cast<int32_t>(i % s.length);
  }
  for (int64_t i = 0; i < s.batch; ++i) batch.samples.push_back(i);
  return batch;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// A job of ranks that all have the same work.
struct Job {
  explicit Job(const Arguments& a) : arguments(a), shape(parse_shape(a.shape)) {
    partita::log::configure(world.rank(), world.size());
    partita::set_deterministic(a.deterministic);
    for (int64_t m = 0; m < a.micro_batches; ++m)
      batches.push_back(random_batch(shape, static_cast<uint64_t>(world.rank() + world.size() * m)));
  }

  const Arguments& arguments;
  StepShape shape;
  partita::World world = partita::World::connect({});
  at::Device device = partita::device_of_rank(arguments.device == "cuda", world.launch().local_rank);
  std::unique_ptr<partita::Communicator> data =
      partita::on_device(world.group("data", all_ranks(world.size())), device);
  std::unique_ptr<partita::Communicator> self = partita::on_device(world.group("self", {world.rank()}), device);
  std::vector<partita::Batch> batches;
};

// A model in training, and how long each step took.
class Trained {
 public:
  Trained(Job& job, partita::Recompute recompute)
      : job_(job),
        config_(make_config(job.arguments, job.shape, recompute, job.world.size())),
        engine_(partita::build_training_engine(
            config_, partita::make_zero(static_cast<int>(config_.parallel.zero_stage), *job.self, *job.data), *job.data,
            job.device)) {
    engine_->initialize(0);
  }

  void step() {
    job_.data->barrier();
    const partita::Timer timer;
    const auto k = static_cast<int64_t>(losses_.size());
    const partita::StepResult r =
        engine_->step(job_.batches, {.step = k, .update = k, .learning_rate = 1e-4F, .clip = 1.0F});
    if (k >= job_.arguments.warmup) seconds_.push_back(timer.seconds());
    losses_.push_back(r.loss);
  }

  [[nodiscard]] const std::vector<double>& seconds() const { return seconds_; }
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }
  [[nodiscard]] int64_t activation_bytes() const {
    const partita::EngineMemory m = engine_->memory();
    return m.activations + m.temporaries;
  }

  [[nodiscard]] nlohmann::ordered_json json(std::string_view recompute) const {
    const Arguments& a = job_.arguments;
    const partita::EngineMemory m = engine_->memory();
    const auto tokens = static_cast<double>(config_.train.global_batch * job_.shape.length);
    const double middle = median(seconds_);
    const auto [least, most] = std::ranges::minmax(seconds_);
    return {{"model", a.model},
            {"shape", a.shape},
            {"device", a.device},
            {"precision", a.precision},
            {"states", a.states},
            {"zero", a.zero},
            {"ranks", job_.world.size()},
            {"threads", at::get_num_threads()},
            {"micro_batches", a.micro_batches},
            {"recompute", recompute},
            {"tokens_per_s", tokens / middle},
            {"ms", middle * 1e3},
            {"ms_min", least * 1e3},
            {"ms_max", most * 1e3},
            {"steps", a.steps},
            {"params_m", static_cast<double>(partita::parameter_count(config_.model)) / 1e6},
            {"state_bytes", m.weights + m.gradients - m.shared + m.master + m.optimizer},
            {"activation_bytes", activation_bytes()},
            {"loss_first", losses_.front()},
            {"loss_last", losses_.back()}};
  }

 private:
  Job& job_;
  partita::Config config_;
  std::unique_ptr<partita::Engine> engine_;
  std::vector<double> seconds_, losses_;
};

// In the order of partita::Recompute.
constexpr std::array<std::string_view, 4> kRecompute = {"none", "selective", "mlp", "full"};

void bench_step(const Arguments& a) {
  const partita::Timer since_start;
  Job job(a);
  const auto mode = std::ranges::find(kRecompute, a.recompute) - kRecompute.begin();
  Trained model(job, static_cast<partita::Recompute>(mode));
  model.step();
  const double first = since_start.seconds();
  while (std::ssize(model.losses()) < a.warmup + a.steps) model.step();
  nlohmann::ordered_json line = model.json(a.recompute);
  line["first_step_s"] = first;
  partita::log::print(line.dump());
}

// How much longer a step takes, as a share: the median over pairs of steps that ran one after the other.
double time_added(const Trained& model, const Trained& none) {
  std::vector<double> ratios;
  for (size_t i = 0; i < model.seconds().size(); ++i) ratios.push_back(model.seconds()[i] / none.seconds()[i] - 1);
  return median(ratios);
}

// The four ways take turns, a step each: a machine's speed drifts by more than what is measured.
void bench_recompute(const Arguments& a) {
  Job job(a);
  std::vector<Trained> models;
  for (size_t i = 0; i < kRecompute.size(); ++i) models.emplace_back(job, static_cast<partita::Recompute>(i));
  for (int64_t k = 0; k < a.warmup + a.steps; ++k)
    for (Trained& model : models) model.step();

  const Trained& none = models.front();
  if (!a.json) {
    partita::log::print(fmt::format("{} {}, {}, ranks: {}, threads: {}, steps: {}", a.model, a.shape, a.precision,
                                    job.world.size(), at::get_num_threads(), a.steps));
    partita::log::print(fmt::format("{:<10} {:>12} {:>14} {:>8} {:>10} {:>8} {:>10}", "recompute", "activations",
                                    "memory saved", "", "step", "added", "loss"));
  }
  for (size_t i = 0; i < models.size(); ++i) {
    const Trained& model = models[i];
    const int64_t saved = none.activation_bytes() - model.activation_bytes();
    const double share = static_cast<double>(saved) / static_cast<double>(none.activation_bytes());
    const double added = time_added(model, none);
    if (a.json) {
      nlohmann::ordered_json line = model.json(kRecompute[i]);
      line["saved_bytes"] = saved;
      line["time_added"] = added;
      partita::log::print(line.dump());
    } else {
      partita::log::print(fmt::format("{:<10} {:>12} {:>14} {:>7.1f}% {:>7.1f} ms {:>7.1f}% {:>10.6f}", kRecompute[i],
                                      partita::human_bytes(model.activation_bytes()), partita::human_bytes(saved),
                                      100 * share, 1e3 * median(model.seconds()), 100 * added, model.losses().back()));
    }
  }
}

void add_shared_options(CLI::App& command, Arguments& a) {
  command.add_option("--model", a.model, "kind")->capture_default_str()->check(CLI::IsMember({"gpt2", "llama"}));
  command.add_option("--shape", a.shape, "layers,heads,width,length,batch a rank,vocabulary")->capture_default_str();
  command.add_option("--kv-heads", a.kv_heads, "of llama; 0: as many as heads")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_option("--states", a.states, "of master weights and optimizer states: fp32, or bf16 with precision bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16"}));
  command.add_flag("--deterministic", a.deterministic,
                   "the same bits in every run also where that costs time: attention's backward on cuda");
  command.add_option("--device", a.device, "cpu or cuda")->capture_default_str()->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--precision", a.precision, "of the compute")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command.add_option("--zero", a.zero, "ZeRO stage")->capture_default_str()->check(CLI::Range(0, 3));
  command.add_option("--micro-batches", a.micro_batches, "gradient accumulation")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--dropout", a.dropout, "everywhere")->capture_default_str()->check(CLI::Range(0.0, 0.9));
  command.add_option("--steps", a.steps, "timed; the median is reported")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--warmup", a.warmup, "steps before")->capture_default_str()->check(CLI::NonNegativeNumber);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measures speed and memory");
  command->require_subcommand(1);
  auto a = std::make_shared<Arguments>();

  CLI::App* step = command->add_subcommand("step", "Times a training step on random tokens; prints a line of JSON");
  add_shared_options(*step, *a);
  step->add_option("--recompute", a->recompute, "what backward makes again")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "selective", "mlp", "full"}));
  step->footer("Example: partita launch -n 2 -- bench step --shape 6,6,384,256,4,4096 --zero 2 --precision bf16");
  step->callback([a] { bench_step(*a); });

  CLI::App* recompute = command->add_subcommand(
      "recompute",
      "Shows what each way of recomputation saves in memory and costs in time; all four are held at once");
  add_shared_options(*recompute, *a);
  recompute->add_flag("--json", a->json, "lines of JSON instead of a table");
  recompute->footer("Example: partita bench recompute --model llama --kv-heads 2 --shape 6,6,384,256,8,4096");
  recompute->callback([a] { bench_recompute(*a); });
}
