// LAMB, which needs norms of whole parameters, on a module whose parameters are divided: the update is that of the
// paper's formula in one process, in fp64.
#include "partita/base/error.h"
#include "tests/module/zero_case.h"
#include "tests/support/reference_optimizer.h"

namespace partita::internal {
namespace {

using namespace test;

constexpr OptimizerOptions kLamb{.kind = OptimizerKind::lamb, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1};
constexpr double kRate = 1e-2;
constexpr int64_t kSteps = 6;

class LambInFp64 {
 public:
  LambInFp64() {
    module->to(torch::kDouble);
    parameters_ = trained(module);
    for (const torch::Tensor& p : parameters_) {
      const auto count = static_cast<size_t>(p.numel());
      states_.push_back({.decay = true, .w = values_of(p), .a = Values(count), .b = Values(count)});
    }
  }
  // Gradients of all samples of the step, and the update. Returns the norm before clipping.
  double step(int64_t step, int micro_batches, double max_norm) {
    for (const torch::Tensor& p : parameters_) p.mutable_grad() = torch::zeros_like(p);
    const int64_t samples = kSamples * test_world().size();
    for (int m = 0; m < micro_batches; ++m)
      (small_loss(module, small_samples((step * micro_batches + m) * samples, samples)) / micro_batches).backward();
    double squares = 0;
    for (const torch::Tensor& p : parameters_) squares += p.grad().square().sum().item<double>();
    if (max_norm > 0) torch::nn::utils::clip_grad_norm_(parameters_, max_norm);
    const torch::NoGradGuard none;
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i].step(kLamb, values_of(parameters_[i].grad()), kRate, step);
      parameters_[i].copy_(torch::tensor(states_[i].w, torch::kDouble).view(parameters_[i].sizes()));
    }
    return std::sqrt(squares);
  }
  SmallModule module{1};

 private:
  static Values values_of(const torch::Tensor& tensor) {
    const torch::Tensor flat = tensor.detach().contiguous();
    return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
  }
  std::vector<torch::Tensor> parameters_;
  std::vector<Reference> states_;
};

TEST(ZeroOptimizer, LambIsTheSingleProcessRun) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int micro_batches : {1, 2})
    for (const double max_norm : {0.0, 0.3}) {
      LambInFp64 expected;
      std::vector<double> norms;
      for (int64_t step = 0; step < kSteps; ++step) norms.push_back(expected.step(step, micro_batches, max_norm));
      EXPECT_GT(norms.front(), 0.3);  // clips
      for (const int stage : {0, 1, 2, 3})
        for (const int64_t unit_elements : {kUnit, int64_t{1} << 20}) {
          const std::string what =
              fmt::format("{} passes, norm {}, stage {}, units of {}", micro_batches, max_norm, stage, unit_elements);
          SmallModule module(1);
          module->to(test_device());
          ZeroOptimizer optimizer(named(*module), mesh(),
                                  {.stage = stage,
                                   .optimizer = kLamb,
                                   .learning_rate = kRate,
                                   .max_norm = max_norm,
                                   .micro_batches = micro_batches,
                                   .unit_elements = unit_elements});
          for (int64_t step = 0; step < kSteps; ++step) {
            for (int m = 0; m < micro_batches; ++m) {
              const int64_t first = ((step * micro_batches + m) * ranks + rank) * kSamples;
              (small_loss(module, small_samples(first, kSamples)) / micro_batches).backward();
            }
            const double norm = norms[static_cast<size_t>(step)];
            EXPECT_NEAR(optimizer.step().grad_norm, norm, kTolerance * norm) << what << ", step " << step;
          }
          expect_same(module, expected.module, kTolerance, what);
        }
    }
}

// One, no and odd numbers of elements, with values that can be computed by hand: one step moves each parameter by the
// learning rate times the norm of its weights, in the direction of Adam's update, which is the gradient's sign.
TEST(ZeroOptimizer, LambMovesEachParameterByItsOwnNorm) {
  struct Case {
    torch::Tensor weights;
    double ratio;  // the norm of the weights to that of the signs
  };
  std::vector<Case> cases;
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {1}, {0, 5}, {7, 15}, {3}})
    cases.push_back({torch::full(shape, 4.0), 4});
  cases.push_back({torch::zeros({5}), 1});  // without a norm: as Adam
  // Ranks have parts with other norms.
  cases.push_back({torch::cat({torch::full({900}, 5.0), torch::zeros({900})}), 5 / std::sqrt(2.0)});
  for (const int stage : {0, 1, 2, 3}) {
    torch::nn::ParameterList list;
    for (const Case& c : cases) list->append(c.weights.to(test_device()).clone().set_requires_grad(true));
    OptimizerOptions options = kLamb;
    options.weight_decay = 0;
    ZeroOptimizer optimizer(named(*list), mesh(),
                            {.stage = stage, .optimizer = options, .learning_rate = 0.125, .unit_elements = 1});
    torch::Tensor loss = torch::zeros({}, test_device());
    for (const torch::Tensor& p : list->parameters()) loss = loss + p.sum() * (1 + test_world().rank());
    loss.backward();
    optimizer.step();
    for (size_t i = 0; i < cases.size(); ++i) {
      const torch::Tensor found = list[i].detach().cpu(), expected = cases[i].weights - 0.125 * cases[i].ratio;
      EXPECT_TRUE(torch::allclose(found, expected, 1e-6, 0)) << "stage " << stage << ", parameter " << i;
    }
  }
}

}  // namespace
}  // namespace partita::internal
