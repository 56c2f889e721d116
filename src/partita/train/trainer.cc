#include "partita/train/trainer.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/base/process_memory.h"
#include "partita/base/process_stat.h"
#include "partita/base/timer.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/run_state.h"
#include "partita/comm/device.h"
#include "partita/comm/host_threads.h"
#include "partita/comm/mesh.h"
#include "partita/config/config_changes.h"
#include "partita/device/device_use.h"
#include "partita/device/stream_delay.h"
#include "partita/monitor/builtin_hooks.h"
#include "partita/ops/deterministic.h"
#include "partita/optim/loss_scale.h"
#include "partita/profile/matmul_tuning.h"
#include "partita/profile/profile.h"
#include "partita/train/build_model.h"
#include "partita/train/engine_checkpoint.h"
#include "partita/train/interrupt.h"
#include "partita/train/measured_timeline.h"
#include "partita/train/memory_forecast.h"
#include "partita/train/memory_tier.h"
#include "partita/train/memory_use.h"
#include "partita/train/run_device.h"
#include "partita/train/run_files.h"
#include "partita/train/run_folder.h"
#include "partita/train/run_loop.h"
#include "partita/train/run_start.h"
#include "partita/train/start_point.h"
#include "partita/train/start_times.h"
#include "partita/train/training_data.h"

namespace partita {
using namespace internal;
namespace {

class TrainingRun {
 public:
  TrainingRun(Config config, World& world, Hooks extra)
      : config_(forked(std::move(config))),
        extra_(std::move(extra)),
        local_rank_(world.launch().local_rank),
        local_ranks_(world.launch().local_size),
        launcher_(world.launch().kind == Launch::Kind::open_mpi ? getppid() : 0),
        device_(select_device(config_.train.device, world)),
        mesh_(world, mesh_sizes(config_, world.size()), device_, timeout_of(config_)),
        peers_(mesh_.world()),
        loss_scale_(first_loss_scale(loss_scale_options())) {}

  TrainOutcome operator()() {
    const InterruptGuard guard(launcher_);
    if (peers_.rank() == 0) set_interrupt_notice("Stopping when the run is set up. Ctrl-C again stops now.\n");
    complete_model(config_);
    workspace_ = prepare_device(config_, mesh_, peers_);
    if (config_.debug.check_memory) {
      const std::vector<std::string> warnings = agree(
          peers_, [&] { return require_training_memory(config_, mesh_.layout().ranks(), local_ranks_, device_); });
      if (peers_.rank() == 0) log_memory_warning(warnings);
    }
    (void)agree(peers_, [&] {
      if (peers_.rank() == 0) folder_ = std::make_unique<RunFolder>(config_.run.directory);
      return std::string();
    });
    start_times_.add("program, ranks and device", process_age());
    while (!prepare()) {
    }
    Timer starting;
    if (counts_.step >= config_.train.steps) {
      log::info("The run is complete (step {} of {}). Raise train.steps, or choose another run.directory", counts_.step,
                config_.train.steps);
      return {.step = counts_.step};
    }
    start();
    start_times_.add("run folder and hooks", starting.lap());
    bool first = true;
    loop_->run({.step =
                    [&](const RunCounts& counts) {
                      StepOutcome outcome = train_step(counts);
                      if (std::exchange(first, false)) {
                        start_times_.add("first step", starting.lap());
                        log::debug("{}", start_times_.text());
                      }
                      return outcome;
                    },
                .evaluate = [this](const RunCounts&) { return evaluate(); },
                .contents = [this](const RunCounts& counts) { return contents(counts); },
                .hold_updates = [this](Event until) { engine_->hold_updates(std::move(until)); }});
    if (!profiler_->done())
      log::warn(
          "no profile was written: it is made of {} steps after the first five and after tuning, and the run had fewer",
          config_.log.profile_steps);
    report_memory();
    loop_->close();
    return loop_->outcome();
  }

 private:
  static std::chrono::milliseconds timeout_of(const Config& config) {
    return std::chrono::seconds(config.parallel.timeout_seconds);
  }

  // Sets up data, engine and weights at the starting point. False: the checkpoint is damaged, and there is an earlier
  // one.
  bool prepare() {
    const std::filesystem::path from =
        agree(peers_, [&] { return peers_.rank() == 0 ? find_start().string() : std::string(); })[0];
    set_position(from);
    Timer timer;
    data_ =
        std::make_unique<TrainingData>(config_, mesh_.data().rank(), mesh_.data().size(),
                                       RunPosition{.step = counts_.step,
                                                   .consumed_samples = counts_.consumed_samples,
                                                   .planned_samples = saved_.planned_samples},
                                       peers_.rank(), peers_.size(), context_split(config_, mesh_.position().context));
    start_times_.add("data", timer.lap());
    if (!engine_) {
      if (device_.is_cpu()) memory_.emplace();
      engine_ = build_training_engine(config_, mesh_);
    }
    start_times_.add("memory", timer.lap());
    set_weights(from);
    start_times_.add("weights", timer.lap());
    if (from.empty()) return true;
    try {
      (void)load_checkpoint(from, wanted_contents(*engine_, own_part()), peers_);
    } catch (const Error& error) {
      if (!may_fall_back(from, error)) throw;
      (void)agree(peers_, [&] {
        if (peers_.rank() == 0) fall_back_from(config_, from, error.what());
        return std::string();
      });
      return false;
    }
    resume(from);
    return true;
  }

  [[nodiscard]] std::filesystem::path find_start() const {
    return start_with_memory(config_, prepare_start(config_), [this](const std::filesystem::path& folder) {
      check_same_model(run_state(read_manifest(folder), folder), config_.model, config_.lora, folder);
    });
  }

  // With adapters, a checkpoint holds only these.
  [[nodiscard]] Part own_part() const { return config_.lora.rank > 0 ? Part::adapters : Part::all; }

  void set_weights(const std::filesystem::path& checkpoint) {
    const auto seed = static_cast<uint64_t>(config_.train.seed);
    if (checkpoint.empty() || own_part() == Part::adapters) {
      if (config_.from.empty()) {
        engine_->initialize(seed);
      } else {
        const std::shared_ptr<const ModelSource> opened = initial_model();
        const ModelSource& source = *opened;
        if (peers_.rank() == 0) show_warnings(source);
        if (config_.model.max_length > source.model.max_length)
          log::info("model.max_length is {}, and {} in {}, which has not seen positions beyond that",
                    config_.model.max_length, source.model.max_length, source.path.string());
        // The full checkpoint the weights came from, never the adapters': those are trained further and saved by this
        // run.
        base_ = std::filesystem::absolute(source.lora.rank > 0 ? source.base_path : source.path);
        stored_as_ = source.stored_as;
        load_weights(*engine_, source, seed);
      }
    }
  }

  // A resumed run keeps its original base, even if model.from is itself a run that was continued since.
  [[nodiscard]] std::shared_ptr<const ModelSource> initial_model() const {
    if (saved_.base.empty() || saved_.base == std::filesystem::absolute(config_.source->path) ||
        !std::filesystem::exists(saved_.base))
      return config_.source;
    return std::make_shared<const ModelSource>(open_model(saved_.base));
  }

  // folder empty: the first step.
  void set_position(const std::filesystem::path& folder) {
    saved_ = {}, counts_ = {}, stored_as_ = {}, grad_norm_ = 0;
    loss_scale_ = first_loss_scale(loss_scale_options());
    if (folder.empty()) return;
    saved_ = run_state(read_manifest(folder), folder);
    check_same_model(saved_, config_.model, config_.lora, folder);
    if (config_.precision.compute == DType::fp16 && saved_.loss_scale > 0)
      loss_scale_ = {.scale = static_cast<float>(saved_.loss_scale), .clean_steps = saved_.clean_steps};
    counts_ = {.step = saved_.step,
               .consumed_samples = saved_.consumed_samples,
               .skipped_steps = saved_.skipped_steps,
               .nan_steps = saved_.nan_steps};
    stored_as_ = saved_.stored_as;
    if (config_.memory.early_updates) grad_norm_ = saved_.grad_norm;
  }

  // What the engine was loaded from.
  void resume(const std::filesystem::path& folder) {
    engine_->publish_weights();
    engine_->set_amax_history(saved_.amax_history);
    log::info("resuming from {}", start_text(folder, saved_.step));
    if (peers_.rank() == 0)
      log_changes(is_in_memory(folder) ? config_.run.directory : run_of(folder), saved_, identity(), config_);
  }

  void start() {
    config_.source.reset();  // closes its files
    info_ = run_info(config_, *engine_, mesh_.world(), device_, counts_.step, counts_.consumed_samples);
    (void)agree(peers_, [&] {  // if it cannot be written, all ranks stop
      if (info_.rank == 0) write_run_files(config_, counts_.step);
      return std::string();
    });
    Hooks hooks = builtin_hooks(config_, info_);
    hooks.add_all(std::move(extra_));
    announce_run(config_, info_, *engine_, data_->examples(), workspace_);
    tuner_ = std::make_unique<MatmulTuner>(
        mesh_.world(), MatmulLibrary{.name = matmul_library(device_)},
        MatmulTuner::Options{.kept = config_.run.directory / "matmul_tuning.json",
                             .shared = config_.kernels.tuning_file,
                             .tune = tunes_matmul(config_.kernels.tune_matmul, device_.is_cuda(), is_deterministic(),
                                                  config_.train.steps - counts_.step),
                             .record_steps = [this](bool on) { engine_->record_steps(on); }});
    profiler_ = std::make_unique<Profiler>(Profiler::Options{.device = device_,
                                                             .trace = config_.run.directory / "profile.json",
                                                             .table = config_.run.directory / "profile.txt",
                                                             .steps = info_.rank == 0 ? config_.log.profile_steps : 0,
                                                             .work = step_work(config_, info_.ranks, engine_->plan())});
    timeline_ = std::make_unique<MeasuredTimeline>(config_, mesh_, *engine_);
    loop_ = std::make_unique<RunLoop>(
        config_, info_, std::move(hooks),
        RunLoop::Ranks{.all = mesh_.world(), .device = device_, .local_rank = local_rank_, .local_ranks = local_ranks_},
        folder_.get(), counts_);
  }

  StepOutcome train_step(const RunCounts& counts) {
    // A skipped step does not advance the schedule.
    const int64_t update = counts.step - counts.skipped_steps;
    const double rate = learning_rate(
        config_, update + 1, counts.consumed_samples + (1 - counts.skipped_steps) * config_.train.global_batch);
    const bool tuning = tuner_->running();  // tuning steps are not representative
    tuner_->before_step();
    if (!tuning) profiler_->before_step(), timeline_->before_step();
    const StepResult r =
        engine_->step(data_->training(counts.consumed_samples), {.step = counts.step,
                                                                 .update = update,
                                                                 .learning_rate = rate,
                                                                 .clip = static_cast<float>(config_.optimizer.clip),
                                                                 .loss_scale = scales_loss() ? loss_scale_.scale : 1,
                                                                 .previous_norm = grad_norm_});
    if (config_.memory.early_updates && !r.skipped) grad_norm_ = r.grad_norm;
    if (!tuning) profiler_->after_step(), timeline_->after_step();
    tuner_->after_step();
    StepOutcome outcome{.loss = r.loss,
                        .grad_norm = r.grad_norm,
                        .learning_rate = rate,
                        .skipped = r.skipped,
                        .may_diverge = !scales_loss()};  // loss scaling has its own end condition
    if (scales_loss()) {
      outcome.skipped_at = fmt::format(" at loss scale {}", loss_scale_.scale);
      loss_scale_ = next_loss_scale(loss_scale_, r.skipped, loss_scale_options());
      outcome.loss_scale = loss_scale_.scale;
    }
    outcome.memory_peak = device_use(device_).allocated;
    if (memory_) memory_->sample();
    return outcome;
  }

  // What this rank has used, measured first: a plan takes memory too.
  [[nodiscard]] MemoryUse memory_use() {
    MemoryUse use;
    if (memory_) {
      use.measured = memory_->bytes();
    } else {
      const DeviceUse device = device_use(device_);
      use.measured = device.allocated, use.reserved = device.reserved;
    }
    use.planned = workspace_ + forecast_rank(config_, mesh_.layout().ranks(), device_, mesh_.position()).device_bytes();
    if (memory_) use.saving = loop_->saving_bytes();
    if (memory_) use.margin = memory_margin(use.planned, at::get_num_threads());
    return use;
  }

  void report_memory() {
    std::vector<MemoryUse> ranks;
    for (const std::string& text : agree(peers_, [this] { return to_json(memory_use()); }))
      ranks.push_back(parse_memory_use(text));
    if (peers_.rank() != 0) return;
    const MemoryUse& use = worst_of(ranks);
    log::info("{}", memory_use_text(use));
    write_file(config_.run.directory / "memory.json", to_json(use) + "\n");
  }

  [[nodiscard]] bool scales_loss() const { return config_.precision.compute == DType::fp16; }
  [[nodiscard]] LossScaleOptions loss_scale_options() const {
    return {.first = static_cast<float>(config_.loss_scale.initial),
            .clean_steps = config_.loss_scale.window,
            .lowest = static_cast<float>(config_.loss_scale.lowest)};
  }

  EvalMetrics evaluate() {
    EvalResult sum;
    for (int64_t i = 0; i < config_.eval.batches; ++i)
      for (const Batch& batch : data_->validation(i)) {
        const EvalResult r = engine_->evaluate(batch);
        sum.loss_sum += r.loss_sum;
        sum.tokens += r.tokens;
      }
    return {.loss = sum.loss_sum / static_cast<double>(std::max<int64_t>(sum.tokens, 1)), .tokens = sum.tokens};
  }

  [[nodiscard]] CheckpointContents contents(const RunCounts& counts) const {
    CheckpointContents state = saved_contents(*engine_, own_part());
    state.scalars = to_json(RunState{.step = counts.step,
                                     .consumed_samples = counts.consumed_samples,
                                     .planned_samples = data_->planned_samples(),
                                     .skipped_steps = counts.skipped_steps,
                                     .nan_steps = counts.nan_steps,
                                     .grad_norm = grad_norm_,
                                     .loss_scale = scales_loss() ? loss_scale_.scale : 0,
                                     .clean_steps = loss_scale_.clean_steps,
                                     .amax_history = engine_->amax_history(),
                                     .model = config_.model,
                                     .lora = config_.lora,
                                     .base = base_,
                                     .stored_as = stored_as_,
                                     .identity = identity()});
    return state;
  }

  // Properties that must match for a resumed run to reproduce an uninterrupted one.
  [[nodiscard]] std::map<std::string, std::string> identity() const {
    std::map<std::string, std::string> all = data_->identity();
    all["train.seed"] = std::to_string(config_.train.seed);
    all["train.sequence_length"] = std::to_string(config_.train.sequence_length);
    if (config_.lora.rank > 0 && !base_.empty()) all["the base model of the adapters"] = base_.string();
    return all;
  }

  Config config_;
  Hooks extra_;
  std::unique_ptr<RunFolder> folder_;  // on rank 0
  int local_rank_, local_ranks_;       // on this machine
  pid_t launcher_;                     // mpirun, or its daemon on this machine
  at::Device device_;
  Mesh mesh_;
  CommunicatorPeers peers_;
  std::unique_ptr<TrainingData> data_;
  std::unique_ptr<Engine> engine_;
  LossScale loss_scale_;
  double grad_norm_ = 0;  // of the last step that updated, with memory.early_updates; otherwise 0
  std::unique_ptr<MatmulTuner> tuner_;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<MeasuredTimeline> timeline_;
  RunInfo info_;
  RunState saved_;              // as read from the checkpoint
  StoredTypes stored_as_;       // element types of the imported weights, for an export
  std::filesystem::path base_;  // base model of the adapters; empty: initial weights
  StartTimes start_times_;
  int64_t workspace_ = 0;               // bytes
  std::optional<ResidentPeak> memory_;  // on CPUs, since before the engine was built
  RunCounts counts_;                    // where the run starts
  std::unique_ptr<RunLoop> loop_;
};

}  // namespace

std::filesystem::path checkpoints_folder(const std::filesystem::path& run) { return run / "checkpoints"; }

TrainOutcome train(Config config, World& world, Hooks extra) {
  log::configure(world.rank(), world.size());
  configure_threads(world, config.train.threads);
  if (config.debug.self_check && world.size() > 1) {
    self_check(*world.everyone("self-check"));
  }
  set_deterministic(config.kernels.deterministic);
  set_stream_delays(config.debug.delay_streams, static_cast<uint64_t>(world.rank()));
  return TrainingRun(std::move(config), world, std::move(extra))();
}

}  // namespace partita
