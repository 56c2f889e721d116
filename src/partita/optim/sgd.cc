#include "partita/optim/sgd.h"

#include <array>

#include "partita/device/scalar_type.h"
#include "partita/ops/sgd.h"
#include "partita/optim/runs.h"

namespace partita::internal {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  explicit SgdOptimizer(const OptimizerOptions& options) : options_(options) {}

  std::span<const std::string> state_names() const override {
    static const std::array<std::string, 1> names = {"sgd.momentum"};
    return std::span(names).first(options_.momentum > 0 ? 1 : 0);
  }

  void step(const ShardView& view, at::Tensor, const StepScalars* now) const override {
    for (const OptimizerRun& run : optimizer_runs(*view.layout, view.segments, dtype_of(view.master))) {
      const auto part = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, run.begin, run.count) : t; };
      sgd_step(part(view.master), view.states.empty() ? at::Tensor() : part(view.states[0]), part(view.gradient),
               part(view.weight),
               {.momentum = options_.momentum, .weight_decay = run.decay ? options_.weight_decay : 0}, now,
               run.rounding);
    }
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options) { return std::make_unique<SgdOptimizer>(options); }

}  // namespace partita::internal
