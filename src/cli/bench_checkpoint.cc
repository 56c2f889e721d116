// partita bench checkpoint: what saving costs a run, in the background and at once.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/bench_job.h"
#include "partita/base/log.h"
#include "partita/base/timer.h"
#include "partita/train/checkpoint_saver.h"
#include "partita/train/engine_checkpoint.h"

namespace partita::cli {
using namespace internal;

namespace {

// Saves of a model, with the training steps that are made meanwhile.
class SavingBench {
 public:
  SavingBench(BenchJob& job, BenchModel& model)
      : job_(job),
        model_(model),
        root_(std::filesystem::absolute(job.arguments.folder.empty() ? "bench-checkpoints" : job.arguments.folder)) {}

  nlohmann::ordered_json in_background() {
    CheckpointSaver saver = make_saver(Switch::on);
    std::vector<double> waited, copied, extra, durable;
    const double plain = median(model_.seconds());
    for (int64_t round = 0; round < job_.arguments.saves + 1; ++round) {  // the first allocates the copy
      const Timer timer;
      (void)saver.begin(++step_, saved_contents(model_.engine(), Part::all),
                        [this](Event until) { model_.engine().hold_updates(std::move(until)); });
      std::optional<SaveMetrics> done;
      int64_t steps = 0;
      for (; !done; ++steps) {
        model_.step();
        if (!busy(saver)) done = saver.advance();
      }
      const double seconds = timer.seconds();
      if (round == 0) continue;
      waited.push_back(done->stall_seconds);
      copied.push_back(done->copy_seconds);
      extra.push_back(seconds - static_cast<double>(steps) * plain);
      durable.push_back(done->seconds);
      bytes_ = done->bytes;
    }
    return {{"waited_ms", 1e3 * median(waited)},
            {"copy_ms", 1e3 * median(copied)},
            {"extra_ms", 1e3 * median(extra)},
            {"seconds", median(durable)},
            {"gb_per_s", static_cast<double>(bytes_) / median(durable) / 1e9},
            {"extra_steps", median(extra) / plain}};
  }

  nlohmann::ordered_json at_once() {
    CheckpointSaver saver = make_saver(Switch::off);
    std::vector<double> seconds;
    for (int64_t round = 0; round < job_.arguments.saves; ++round) {
      model_.step();
      seconds.push_back(saver.save_now(++step_, saved_contents(model_.engine(), Part::all)).seconds);
    }
    return {{"seconds", median(seconds)}, {"gb_per_s", static_cast<double>(bytes_) / median(seconds) / 1e9}};
  }

  [[nodiscard]] int64_t bytes() const { return bytes_; }

  void clean_up() {
    std::error_code ignored;
    if (job_.world.rank() == 0) std::filesystem::remove_all(root_, ignored);
  }

 private:
  CheckpointSaver make_saver(Switch background) {
    CheckpointConfig config = job_.config.checkpoint;
    config.keep_last = 1;
    config.background = background;
    return CheckpointSaver({.root = root_,
                            .checkpoint = std::move(config),
                            .device = job_.device,
                            .local_rank = job_.world.launch().local_rank,
                            .local_ranks = job_.world.launch().local_size},
                           job_.mesh.world());
  }
  // On any rank.
  [[nodiscard]] bool busy(const CheckpointSaver& saver) {
    CommunicatorPeers peers(job_.mesh.world());
    const auto idle = agree(peers, [&] { return std::string(saver.is_idle() ? "1" : "0"); });
    return std::ranges::find(idle, "0") != idle.end();
  }

  BenchJob& job_;
  BenchModel& model_;
  std::filesystem::path root_;
  int64_t step_ = 0, bytes_ = 0;
};

}  // namespace

void bench_checkpoint(const BenchArguments& a) {
  BenchJob job(a);
  BenchModel model(job, job.config.memory.recompute);
  model.tune();
  while (model.steps() < a.warmup + a.steps) model.step();
  nlohmann::ordered_json line = model.json();
  SavingBench saving(job, model);
  line["background"] = saving.in_background();
  line["at_once"] = saving.at_once();
  line["checkpoint_bytes"] = saving.bytes();
  saving.clean_up();
  log::print(line.dump());
}

}  // namespace partita::cli
