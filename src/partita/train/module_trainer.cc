#include "partita/train/module_trainer.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/base/random.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/checkpoint/run_state.h"
#include "partita/comm/sum_over.h"
#include "partita/device/device_use.h"
#include "partita/device/stream.h"
#include "partita/module/shared_buffers.h"
#include "partita/monitor/builtin_hooks.h"
#include "partita/train/disk_forecast.h"
#include "partita/train/interrupt.h"
#include "partita/train/memory_tier.h"
#include "partita/train/module_options.h"
#include "partita/train/run_files.h"
#include "partita/train/run_folder.h"
#include "partita/train/run_loop.h"
#include "partita/train/start_point.h"

namespace partita {
using namespace internal;
namespace {

// What random numbers are drawn for, besides the step and the rank.
constexpr int kEvaluation = -1;  // in place of a micro-batch's number
constexpr int kBatch = -1;       // in place of a part's number: the inputs and the loss

// Signals of mpirun itself are not the user's wish.
pid_t launcher_of_process() { return launch_of_this_process().kind == Launch::Kind::open_mpi ? getppid() : 0; }

void require_loss(const at::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1)
    fail("ModuleTrainer: the loss is {}, expected a tensor with one element",
         loss.defined() ? fmt::format("a tensor of {} elements", loss.numel()) : "undefined");
  if (!loss.requires_grad())
    fail("ModuleTrainer: the loss has no graph: it must be computed from parameters that require a gradient");
}

}  // namespace

struct ModuleTrainer::Implementation {
  // Adds the gradients of a step's micro-batches; the mean of their losses.
  using Passes = std::function<double(const RunCounts& before)>;

  Implementation(ZeroOptimizer& optimizer, Pipeline* pipeline, Untrained untrained, const Mesh& mesh,
                 const ModuleTraining& options, Hooks extra);

  bool load();
  TrainOutcome run(const Passes&, const std::function<double()>& evaluate);
  double passes_of_module(const RunCounts&, const Loss&);
  double passes_of_pipeline(const RunCounts&, const Inputs&, const LossOfOutputs&);
  [[nodiscard]] RunInfo run_info();
  void announce(const RunInfo&);
  StepOutcome step(const RunCounts&, const Passes&);
  [[nodiscard]] MicroBatch micro_batch(const RunCounts&, int number) const;
  [[nodiscard]] EvalMetrics evaluate(int64_t step, const std::function<double()>& of_rank);
  void set_learning_rates(double rate);
  void seed(int64_t step, int number, int part = kBatch) const;
  [[nodiscard]] double mean_over_ranks(double) const;
  [[nodiscard]] std::map<std::string, std::string> identity() const;

  ZeroOptimizer& optimizer_;
  Pipeline* pipeline_;  // null: none
  int micro_batches_;   // of a step
  Untrained untrained_;
  const Mesh& mesh_;
  Hooks extra_;
  CommunicatorPeers peers_;
  Config config_;  // the sections that this run has in common with `partita train`
  std::string settings_;
  InterruptGuard guard_;
  std::unique_ptr<RunFolder> folder_;  // on rank 0
  std::vector<double> factors_;        // [group]: of its learning rate to that of the first
  SharedBuffers shared_;
  RunCounts start_;
  ModuleSize size_;
  bool ran_ = false;
};

ModuleTrainer::Implementation::Implementation(ZeroOptimizer& optimizer, Pipeline* pipeline, Untrained untrained,
                                              const Mesh& mesh, const ModuleTraining& options, Hooks extra)
    : optimizer_(optimizer),
      pipeline_(pipeline),
      micro_batches_(pipeline != nullptr ? pipeline->micro_batches() : optimizer.micro_batches()),
      untrained_(std::move(untrained)),
      mesh_(mesh),
      extra_(std::move(extra)),
      peers_(mesh.world()),
      config_(forked(config_of(options))),
      settings_(settings_text(options)),
      guard_(launcher_of_process()),
      shared_(untrained_.buffers, mesh.data(), mesh.device()) {
  log::configure(peers_.rank(), peers_.size());
  if (mesh_.pipeline().size() > 1 && pipeline_ == nullptr)
    fail("ModuleTrainer: a mesh with {} stages and no pipeline: pass the Pipeline, too", mesh_.pipeline().size());
  if (pipeline_ != nullptr && optimizer_.micro_batches() != pipeline_->passes())
    fail("ModuleTrainer: the optimizer has micro_batches {}, expected {}, the passes() of the pipeline",
         optimizer_.micro_batches(), pipeline_->passes());
  validate(options, mesh_.data().size(), micro_batches_);
  size_ = module_size(optimizer_, untrained_, mesh_);  // refuses what cannot be stored
  if (config_.optimizer.learning_rate > 0 && !(optimizer_.learning_rate(0) > 0))
    fail(
        "ModuleTrainer: the first group of parameters has the learning rate {}, expected more than 0: with a schedule, "
        "rates of groups are relative to that of the first",
        optimizer_.learning_rate(0));
  if (config_.optimizer.learning_rate > 0)
    for (size_t g = 0; g < optimizer_.groups(); ++g)
      factors_.push_back(optimizer_.learning_rate(g) / optimizer_.learning_rate(0));
  if (peers_.rank() == 0) set_interrupt_notice("Stopping when the run is set up. Ctrl-C again stops now.\n");
  (void)agree(peers_, [&] {
    if (peers_.rank() == 0) folder_ = std::make_unique<RunFolder>(config_.run.directory);
    return std::string();
  });
  while (!load()) {
  }
}

// False: the checkpoint is damaged, and there is an earlier one.
bool ModuleTrainer::Implementation::load() {
  const auto find = [&] {
    return start_with_memory(config_, prepare_start(config_),
                             [](const std::filesystem::path& folder) { (void)read_module_state(folder); });
  };
  const std::filesystem::path from =
      agree(peers_, [&] { return peers_.rank() == 0 ? find().string() : std::string(); })[0];
  if (from.empty()) {
    shared_.share();
    return true;
  }
  try {
    ModuleState saved;
    (void)agree(peers_, [&] {  // all ranks must take the same way
      saved = read_module_state(from);
      return std::string();
    });
    load_module(optimizer_, untrained_, mesh_, from);
    start_ = saved.counts;
    log::info("resuming from {}", start_text(from, start_.step));
    if (peers_.rank() == 0)
      for (const Difference& d : differences(saved.identity, identity()))
        log::warn("{} changed from {} to {}: the run will not reproduce the original", d.name, d.before, d.now);
    return true;
  } catch (const Error& error) {
    if (!may_fall_back(from, error)) throw;
    (void)agree(peers_, [&] {
      if (peers_.rank() == 0) fall_back_from(config_, from, error.what());
      return std::string();
    });
    return false;
  }
}

TrainOutcome ModuleTrainer::Implementation::run(const Passes& passes, const std::function<double()>& evaluation) {
  if (std::exchange(ran_, true)) fail("ModuleTrainer: run was called twice: make another trainer for another run");
  if (config_.eval.every > 0 && !evaluation)
    fail("ModuleTrainer: evaluate_every is {}, and run was given no function for it", config_.eval.every);
  if (start_.step >= config_.train.steps) {
    log::info("The run is complete (step {} of {}). Raise steps, or choose another run.directory", start_.step,
              config_.train.steps);
    return {.step = start_.step};
  }
  const RunInfo info = run_info();
  (void)agree(peers_, [&] {  // if it cannot be written, all ranks stop
    if (info.rank == 0) write_versions(config_.run.directory);
    return std::string();
  });
  Hooks hooks = builtin_hooks(config_, info);
  hooks.add_all(std::move(extra_));
  announce(info);
  const Launch launch = launch_of_this_process();
  RunLoop loop(config_, info, std::move(hooks),
               {.all = mesh_.world(),
                .device = mesh_.device(),
                .local_rank = launch.local_rank,
                .local_ranks = launch.local_size},
               folder_.get(), start_);
  loop.run({.step = [&](const RunCounts& counts) { return step(counts, passes); },
            .evaluate = [&](const RunCounts& counts) { return evaluate(counts.step, evaluation); },
            .contents =
                [&](const RunCounts& counts) {
                  return saved_module(optimizer_, untrained_, mesh_, {.counts = counts, .identity = identity()});
                },
            // Users may write to their parameters at any time.
            .hold_updates = [](const Event& copied) { copied.wait(); }});
  loop.close();
  return loop.outcome();
}

RunInfo ModuleTrainer::Implementation::run_info() {
  return {.rank = peers_.rank(),
          .ranks = peers_.size(),
          .total_steps = config_.train.steps,
          .resumed_step = start_.step,
          .resumed_samples = start_.consumed_samples,
          .global_batch = config_.train.global_batch,
          .parameters = size_.trained + size_.frozen,
          .trained_parameters = size_.trained,
          .on_cpu = mesh_.device().is_cpu(),
          .directory = config_.run.directory,
          .settings = settings_};
}

void ModuleTrainer::Implementation::announce(const RunInfo& info) {
  const ZeroOptimizer::Memory memory = optimizer_.memory();
  log::info("training {} parameters on {} rank{}, from step {} to {}, with {} samples each", info.trained_parameters,
            info.ranks, info.ranks == 1 ? "" : "s", info.resumed_step + 1, info.total_steps, info.global_batch);
  log::info("memory per rank: weights {}, gradients {}, master weights {}, states {}", human_bytes(memory.weights),
            human_bytes(memory.gradients), human_bytes(memory.master), human_bytes(memory.optimizer));
  if (memory.host > 0) log::info("offload: in addition {} of host memory on each rank", human_bytes(memory.host));
  if (memory.disk > 0) log::info("offload: {} in a file of each rank", human_bytes(memory.disk));
  if (info.rank > 0) return;
  const std::string warning = disk_warning(size_.stored_bytes, config_, info.total_steps - info.resumed_step,
                                           free_bytes(config_.run.directory));
  if (!warning.empty()) log::warn("{}", warning);
  if (const std::string in_memory = memory_tier_warning(config_, size_.stored_bytes); !in_memory.empty())
    log::warn("{}", in_memory);
}

MicroBatch ModuleTrainer::Implementation::micro_batch(const RunCounts& counts, int number) const {
  const int64_t samples = config_.train.global_batch / micro_batches_;
  return {.step = counts.step,
          .number = number,
          .first_sample = counts.consumed_samples + number * samples,
          .samples = samples / mesh_.data().size()};
}

double ModuleTrainer::Implementation::passes_of_module(const RunCounts& counts, const Loss& loss) {
  at::Tensor sum = at::zeros({}, at::TensorOptions(at::kDouble).device(mesh_.device()));
  for (int m = 0; m < micro_batches_; ++m) {
    seed(counts.step, m);
    const at::Tensor one = loss(micro_batch(counts, m));
    require_loss(one);
    sum += one.detach().reshape({}).to(at::kDouble);
    (micro_batches_ == 1 ? one : one.div(micro_batches_)).backward();
  }
  return sum.cpu().item<double>() / micro_batches_;
}

double ModuleTrainer::Implementation::passes_of_pipeline(const RunCounts& counts, const Inputs& inputs,
                                                         const LossOfOutputs& loss) {
  struct SeededParts {  // for this step
    SeededParts(Pipeline& pipeline, Pipeline::BeforePart seed) : of(pipeline) { of.before_each_part(std::move(seed)); }
    ~SeededParts() { of.before_each_part({}); }
    Pipeline& of;
  };
  const SeededParts seeded(*pipeline_, [&](int part, int m) { seed(counts.step, m, part); });
  return pipeline_->step(
      optimizer_,
      [&](int m) {
        seed(counts.step, m);
        return inputs(micro_batch(counts, m));
      },
      [&](const std::vector<at::Tensor>& outputs, int m) {
        seed(counts.step, m);
        const at::Tensor one = loss(outputs, micro_batch(counts, m));
        require_loss(one);
        return one;
      });
}

StepOutcome ModuleTrainer::Implementation::step(const RunCounts& counts, const Passes& passes) {
  if (config_.optimizer.learning_rate > 0)  // a skipped step does not advance it
    set_learning_rates(learning_rate(config_, counts.step - counts.skipped_steps + 1, 0));
  const double loss = passes(counts);
  const ZeroStep r = optimizer_.step();
  shared_.share();
  return {.loss = mean_over_ranks(loss),
          .grad_norm = r.grad_norm,
          .learning_rate = optimizer_.learning_rate(),
          .skipped = r.skipped,
          .memory_peak = device_use(mesh_.device()).allocated};
}

EvalMetrics ModuleTrainer::Implementation::evaluate(int64_t step, const std::function<double()>& of_rank) {
  const at::NoGradGuard none;
  seed(step, kEvaluation);
  return {.loss = mean_over_ranks(of_rank())};
}

void ModuleTrainer::Implementation::set_learning_rates(double rate) {
  for (size_t g = 0; g < factors_.size(); ++g) optimizer_.set_learning_rate(g, rate * factors_[g]);
}

void ModuleTrainer::Implementation::seed(int64_t step, int number, int part) const {
  uint64_t bits = mix(static_cast<uint64_t>(config_.train.seed));
  for (const int64_t value : {step, int64_t{number}, int64_t{mesh_.data().rank()}})
    bits = mix(bits ^ static_cast<uint64_t>(value));
  if (part != kBatch) bits = mix(bits ^ static_cast<uint64_t>(part));
  at::manual_seed(bits);
}

double ModuleTrainer::Implementation::mean_over_ranks(double value) const {
  return sum_over(mesh_.world(), value) / peers_.size();
}

// What must be the same for a resumed run to reproduce an uninterrupted one.
std::map<std::string, std::string> ModuleTrainer::Implementation::identity() const {
  return {{"seed", std::to_string(config_.train.seed)}, {"global_batch", std::to_string(config_.train.global_batch)}};
}

ModuleTrainer::ModuleTrainer(ZeroOptimizer& optimizer, Untrained untrained, const Mesh& mesh,
                             const ModuleTraining& options, Hooks extra)
    : implementation_(std::make_unique<Implementation>(optimizer, nullptr, std::move(untrained), mesh, options,
                                                       std::move(extra))) {}

ModuleTrainer::ModuleTrainer(ZeroOptimizer& optimizer, Pipeline& pipeline, Untrained untrained, const Mesh& mesh,
                             const ModuleTraining& options, Hooks extra)
    : implementation_(std::make_unique<Implementation>(optimizer, &pipeline, std::move(untrained), mesh, options,
                                                       std::move(extra))) {}

ModuleTrainer::~ModuleTrainer() = default;

const RunCounts& ModuleTrainer::start() const { return implementation_->start_; }

TrainOutcome ModuleTrainer::run(const Loss& loss, const std::function<double()>& evaluate) {
  if (implementation_->pipeline_ != nullptr)
    fail("ModuleTrainer: a pipeline, and the loss of a whole module: pass run the inputs and a loss of the outputs");
  return implementation_->run([&](const RunCounts& counts) { return implementation_->passes_of_module(counts, loss); },
                              evaluate);
}

TrainOutcome ModuleTrainer::run(const Inputs& inputs, const LossOfOutputs& loss,
                                const std::function<double()>& evaluate) {
  if (implementation_->pipeline_ == nullptr)
    fail("ModuleTrainer: inputs and a loss of outputs, and no pipeline: pass the Pipeline to the constructor");
  return implementation_->run(
      [&](const RunCounts& counts) { return implementation_->passes_of_pipeline(counts, inputs, loss); }, evaluate);
}

}  // namespace partita
