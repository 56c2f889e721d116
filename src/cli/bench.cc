// partita bench: the speed of a training step, on random tokens.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/random.h"
#include "partita/base/timer.h"
#include "partita/comm/mesh.h"
#include "partita/comm/world.h"
#include "partita/train/build_model.h"

namespace {

struct Arguments {
  std::string shape = "6,6,384,256,8,4096";
  std::string precision = "fp32", recompute = "none";
  int64_t zero = 0, micro_batches = 1, steps = 14, warmup = 4;
  float dropout = 0;
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

partita::Config make_config(const Arguments& a, const StepShape& s, int ranks) {
  partita::Config c;
  c.model = {.layers = s.layers,
             .hidden_size = s.width,
             .heads = s.heads,
             .vocab_size = s.vocabulary,
             .max_length = s.length,
             .dropout = a.dropout,
             .embedding_dropout = a.dropout,
             .attention_dropout = a.dropout};
  c.train.sequence_length = s.length;
  c.train.micro_batch = s.batch;
  c.train.global_batch = s.batch * ranks * a.micro_batches;
  c.train.precision = partita::parse_dtype(a.precision);
  c.train.recompute = a.recompute == "full"        ? partita::Recompute::full
                      : a.recompute == "selective" ? partita::Recompute::selective
                                                   : partita::Recompute::none;
  c.parallel.zero_stage = a.zero;
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

void bench_step(const Arguments& a) {
  const partita::Timer since_start;
  partita::World world = partita::World::connect({});
  partita::log::configure(world.rank(), world.size());
  const StepShape shape = parse_shape(a.shape);
  const partita::Config config = make_config(a, shape, world.size());
  partita::validate(config.model);
  partita::Mesh mesh(world, {.data = world.size()});
  const std::unique_ptr<partita::Communicator> self = world.group("self", {world.rank()});
  const auto engine = partita::build_training_engine(
      config, partita::make_zero(static_cast<int>(a.zero), *self, mesh.data()), mesh.data());
  engine->initialize(0);

  std::vector<partita::Batch> batches;
  for (int64_t m = 0; m < a.micro_batches; ++m)
    batches.push_back(random_batch(shape, static_cast<uint64_t>(world.rank() + world.size() * m)));
  std::vector<double> seconds, losses;
  double first = 0;
  for (int64_t k = 0; k < a.warmup + a.steps; ++k) {
    mesh.data().barrier();
    const partita::Timer timer;
    const partita::StepResult r = engine->step(batches, {.step = k, .learning_rate = 1e-4F, .clip = 1.0F});
    if (k == 0) first = since_start.seconds();
    if (k >= a.warmup) seconds.push_back(timer.seconds());
    losses.push_back(r.loss);
  }
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  const auto tokens = static_cast<double>(config.train.global_batch * shape.length);
  const partita::EngineMemory m = engine->memory();
  const nlohmann::ordered_json line = {{"shape", a.shape},
                                       {"precision", a.precision},
                                       {"zero", a.zero},
                                       {"ranks", world.size()},
                                       {"threads", at::get_num_threads()},
                                       {"micro_batches", a.micro_batches},
                                       {"recompute", a.recompute},
                                       {"tokens_per_s", tokens / median},
                                       {"ms", median * 1e3},
                                       {"ms_min", seconds.front() * 1e3},
                                       {"ms_max", seconds.back() * 1e3},
                                       {"steps", a.steps},
                                       {"first_step_s", first},
                                       {"params_m", static_cast<double>(partita::parameter_count(config.model)) / 1e6},
                                       {"state_bytes", m.weights + m.gradients + m.master + m.optimizer},
                                       {"activation_bytes", m.activations + m.temporaries},
                                       {"loss_first", losses.front()},
                                       {"loss_last", losses.back()}};
  partita::log::print(line.dump());
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measures speed");
  command->require_subcommand(1);
  CLI::App* step =
      command->add_subcommand("step", "Times a GPT-2 training step on random tokens; prints a line of JSON");
  auto a = std::make_shared<Arguments>();
  step->add_option("--shape", a->shape, "layers,heads,width,length,batch a rank,vocabulary")->capture_default_str();
  step->add_option("--precision", a->precision, "of the compute")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16"}));
  step->add_option("--recompute", a->recompute, "what backward makes again")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "selective", "full"}));
  step->add_option("--zero", a->zero, "ZeRO stage")->capture_default_str()->check(CLI::Range(0, 3));
  step->add_option("--micro-batches", a->micro_batches, "gradient accumulation")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  step->add_option("--dropout", a->dropout, "everywhere")->capture_default_str()->check(CLI::Range(0.0, 0.9));
  step->add_option("--steps", a->steps, "timed; the median is reported")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  step->add_option("--warmup", a->warmup, "steps before")->capture_default_str()->check(CLI::NonNegativeNumber);
  step->footer("Example: partita launch -n 2 -- bench step --shape 6,6,384,256,4,4096 --zero 2 --precision bf16");
  step->callback([a] { bench_step(*a); });
}
