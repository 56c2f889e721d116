#include "partita/optim/adamw.h"

#include <array>

#include "partita/device/scalar_type.h"
#include "partita/ops/adamw.h"
#include "partita/optim/runs.h"

namespace partita::internal {
namespace {

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(const OptimizerOptions& options) : options_(options) {}

  std::span<const std::string> state_names() const override {
    static const std::array<std::string, 2> names = {"adamw.m", "adamw.v"};
    return names;
  }

  void step(const ShardView& view, at::Tensor, const StepScalars* now) const override {
    for (const OptimizerRun& run : optimizer_runs(*view.layout, view.segments, dtype_of(view.master))) {
      const auto part = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, run.begin, run.count) : t; };
      adamw_step(part(view.master), part(view.states[0]), part(view.states[1]), part(view.gradient), part(view.weight),
                 {.beta1 = options_.beta1,
                  .beta2 = options_.beta2,
                  .epsilon = options_.epsilon,
                  .weight_decay = run.decay ? options_.weight_decay : 0},
                 now, run.rounding);
    }
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options) {
  return std::make_unique<AdamWOptimizer>(options);
}

}  // namespace partita::internal
