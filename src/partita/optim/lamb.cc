#include "partita/optim/lamb.h"

#include <array>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/ops/lamb.h"

namespace partita::internal {
namespace {

class LambOptimizer final : public Optimizer {
 public:
  explicit LambOptimizer(const OptimizerOptions& options) : options_(options) {}

  std::span<const std::string> state_names() const override {
    static const std::array<std::string, 2> names = {"lamb.m", "lamb.v"};
    return names;
  }

  bool needs_norms() const override { return true; }

  void measure(const ShardView& view, at::Tensor norms, const StepScalars* now) const override {
    for (const Segment& s : view.segments) {
      if (!s.primary) continue;  // another rank of the tensor-parallel group counts it
      const auto part = [&](const at::Tensor& t) { return t.narrow(0, s.in_slice, s.count); };
      lamb_measure(part(view.master), part(view.states[0]), part(view.states[1]), part(view.gradient), lamb_of(view, s),
                   now, norms_of(view, s, norms));
    }
  }

  void step(const ShardView& view, at::Tensor norms, const StepScalars* now) const override {
    for (const Segment& s : view.segments) {
      const auto part = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, s.in_slice, s.count) : t; };
      const Rounding rounding{.parameter = hash_of(parameter_of(view, s).name),
                              .first = s.first_number(parameter_of(view, s))};
      lamb_step(part(view.master), part(view.states[0]), part(view.states[1]), part(view.gradient), part(view.weight),
                lamb_of(view, s), norms_of(view, s, norms), now, rounding);
    }
  }

 private:
  static const ParameterSpec& parameter_of(const ShardView& view, const Segment& s) {
    return view.layout->parameters[static_cast<size_t>(s.parameter)];
  }

  static at::Tensor norms_of(const ShardView& view, const Segment& s, const at::Tensor& norms) {
    const int64_t row = view.first_parameter + s.parameter;
    PARTITA_CHECK(norms.defined() && norms.dim() == 2, "norms are missing");
    PARTITA_CHECK(row < norms.size(0), "norms of {} parameters do not hold parameter {}", norms.size(0), row);
    return norms[row];
  }

  Lamb lamb_of(const ShardView& view, const Segment& s) const {
    return {.beta1 = options_.beta1,
            .beta2 = options_.beta2,
            .epsilon = options_.epsilon,
            .weight_decay = parameter_of(view, s).decay ? options_.weight_decay : 0};
  }

  OptimizerOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options) {
  return std::make_unique<LambOptimizer>(options);
}

}  // namespace partita::internal
