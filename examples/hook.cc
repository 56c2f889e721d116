// hook CONFIG [--section.key=value ...]: what `partita train` does, with a hook that stops the run at a loss of 4.
#include <partita/partita.h>

using namespace partita;

// Runs on every rank, next to the built-in hooks of rank 0 (log lines, metrics.jsonl, TensorBoard).
class StopAtLoss final : public Hook {
 public:
  explicit StopAtLoss(double loss) : loss_(loss) {}
  [[nodiscard]] int priority() const override { return 50; }
  void after_step(TrainerView& view) override {
    if (view.step.loss < loss_) view.stop_reason = fmt::format("the loss is below {}", loss_);
  }

 private:
  double loss_;
};

int main(int count, char** arguments) try {
  if (count < 2) fail("usage: hook CONFIG [--section.key=value ...]");
  const std::vector<std::string> overrides(arguments + 2, arguments + count);
  const Config config = load_config(arguments[1], overrides);
  World world = World::connect({.timeout = std::chrono::seconds(config.parallel.timeout_seconds)});
  validate(config, world.size());
  Hooks mine;
  mine.add(std::make_unique<StopAtLoss>(4.0));
  const TrainOutcome outcome = train(config, world, std::move(mine));
  if (world.rank() == 0) log::info("the last step was {}", outcome.step);
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());  // the other ranks end, too
}
