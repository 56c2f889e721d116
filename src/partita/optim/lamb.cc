#include "partita/optim/lamb.h"

#include <array>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/ops/lamb.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/optimizer.h"
#endif

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
      const auto part = [&](const at::Tensor& t) { return t.narrow(0, s.in_slice, s.count); };
#ifdef PARTITA_CUDA
      if (view.master.is_cuda()) {
        cuda::lamb_measure(part(view.master), part(view.states[0]), part(view.states[1]), part(view.gradient),
                           lamb_of(view, s), now, norms[row_of(view, s)]);
        continue;
      }
#endif
      const SquaredNorms here = lamb_measure(part(view.master), part(view.states[0]), part(view.states[1]),
                                             part(view.gradient), lamb_of(view, s), now);
      double* row = norms_of(view, s, norms);
      row[0] += here.weight;
      row[1] += here.update;
    }
  }

  void step(const ShardView& view, at::Tensor norms, const StepScalars* now) const override {
    for (const Segment& s : view.segments) {
      const auto part = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, s.in_slice, s.count) : t; };
      const Rounding rounding{.parameter = hash_of(parameter_of(view, s).name), .first = s.in_parameter};
#ifdef PARTITA_CUDA
      if (view.master.is_cuda()) {
        cuda::lamb_step(part(view.master), part(view.states[0]), part(view.states[1]), part(view.gradient),
                        part(view.weight), lamb_of(view, s), norms[row_of(view, s)], now, rounding);
        continue;
      }
#endif
      const double* row = norms_of(view, s, norms);
      lamb_step(part(view.master), part(view.states[0]), part(view.states[1]), part(view.gradient), part(view.weight),
                lamb_of(view, s), lamb_ratio({row[0], row[1]}), now, rounding);
    }
  }

 private:
  static const ParameterSpec& parameter_of(const ShardView& view, const Segment& s) {
    return view.layout->parameters[static_cast<size_t>(s.parameter)];
  }

  static int64_t row_of(const ShardView& view, const Segment& s) { return view.first_parameter + s.parameter; }

  static double* norms_of(const ShardView& view, const Segment& s, const at::Tensor& norms) {
    const int64_t row = row_of(view, s);
    PARTITA_CHECK(norms.defined() && norms.scalar_type() == at::kDouble && norms.is_contiguous(),
                  "norms are missing, not double or not contiguous");
    PARTITA_CHECK(norms.dim() == 2 && norms.size(1) == 2 && row < norms.size(0),
                  "norms of {} parameters do not hold parameter {}", norms.size(0), row);
    return norms.mutable_data_ptr<double>() + 2 * row;
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
