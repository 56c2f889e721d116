#include "partita/module/deferred_gradients.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "partita/module/operand_key.h"
#include "partita/module/stage_pass.h"

namespace partita::internal {
namespace {

using torch::Tensor;

// A linear whose weights may wait.
torch::nn::Linear keyed(int64_t inputs, int64_t outputs) {
  torch::nn::Linear linear(inputs, outputs);
  set_data(linear->weight, with_operand_key(linear->weight.detach()));
  return linear;
}

double difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(DeferredGradients, TheGradientsOfLinearsWait) {
  torch::manual_seed(2);
  torch::nn::Linear first = keyed(5, 7), second = keyed(7, 3);
  const Tensor x = torch::randn({4, 2, 5}).requires_grad_(), flat = torch::randn({6, 5});
  const auto loss = [&] {  // addmm, matmul, a weight that is used twice
    return second(torch::tanh(first(x))).square().sum() + first(flat).sum() +
           torch::matmul(flat, first->weight.t()).sum();
  };
  const std::vector<Tensor> leaves{x, first->weight, first->bias, second->weight, second->bias};
  const auto expected = torch::autograd::grad({loss()}, leaves);
  const auto deferred = std::make_shared<DeferredGradients>();
  Tensor value;
  {
    const DeferWeightGradients guard(deferred);
    value = loss();
  }
  const auto found = torch::autograd::grad({value}, leaves, {}, {}, false, /*allow_unused=*/true);
  for (const size_t i : {0, 2, 4}) EXPECT_LE(difference(found[i], expected[i]), 1e-6) << i;
  EXPECT_FALSE(found[1].defined());
  EXPECT_FALSE(found[3].defined());
  std::vector<Tensor> weights, gradients;
  deferred->compute(weights, gradients);
  EXPECT_EQ(weights.size(), 4U);
  Tensor of_first = torch::zeros_like(first->weight), of_second = torch::zeros_like(second->weight);
  for (size_t i = 0; i < weights.size(); ++i)
    (weights[i].is_same(first->weight) ? of_first : of_second) += gradients[i];
  EXPECT_LE(difference(of_first, expected[1]), 1e-5);
  EXPECT_LE(difference(of_second, expected[3]), 1e-5);
}

// The input of a stage is a leaf that requires a gradient, too, and may stand where a weight does.
TEST(DeferredGradients, ThoseOfInputsDoNot) {
  torch::manual_seed(3);
  const torch::nn::Linear queries = keyed(5, 4);
  const Tensor x = torch::randn({6, 5}).requires_grad_();
  const auto deferred = std::make_shared<DeferredGradients>();
  const DeferWeightGradients guard(deferred);
  const Tensor y = torch::nn::functional::linear(queries->weight, x);  // [4, 6]
  const auto found = torch::autograd::grad({y.sum()}, {x, queries->weight});
  EXPECT_LE(difference(found[0], queries->weight.detach().sum(0).expand({6, 5})), 1e-6);
  EXPECT_LE(difference(found[1], x.detach().sum(0).expand({4, 5})), 1e-6);
}

// A residual in place of a bias is no linear with a bias.
TEST(DeferredGradients, AResidualIsNoBias) {
  const torch::nn::Linear linear = keyed(5, 4);
  const Tensor residual = torch::ones({3, 4}).requires_grad_(), x = torch::ones({3, 5});
  const auto deferred = std::make_shared<DeferredGradients>();
  const DeferWeightGradients guard(deferred);
  torch::addmm(residual, x, linear->weight.t()).sum().backward();
  EXPECT_TRUE(residual.grad().equal(torch::ones({3, 4})));
}

TEST(StagePass, GivesInputGradientsBeforeThoseOfWeights) {
  torch::manual_seed(4);
  torch::nn::Linear linear = keyed(5, 4);
  const torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({5}));
  const std::vector<PipelinePart> parts{pipeline_part("norm", norm), pipeline_part("linear", linear)};
  const Tensor x = torch::randn({3, 5}), dy = torch::randn({3, 4});
  const Tensor whole = x.clone().requires_grad_();
  const std::vector<Tensor> leaves{whole, linear->weight, linear->bias, norm->weight};
  torch::nn::LayerNorm same = norm;
  const auto expected = torch::autograd::grad({linear(same(whole))}, leaves, {dy});
  StagePass pass(parts, {x.clone().requires_grad_()}, /*defers=*/true);
  const std::vector<Tensor> dx = pass.input_gradients({dy});
  ASSERT_EQ(dx.size(), 1U);
  EXPECT_LE(difference(dx[0], expected[0]), 1e-6);
  for (const Tensor& p : {linear->weight, linear->bias, norm->weight}) EXPECT_FALSE(p.grad().defined());
  pass.weight_gradients();
  EXPECT_LE(difference(linear->weight.grad(), expected[1]), 1e-6);
  EXPECT_LE(difference(linear->bias.grad(), expected[2]), 1e-6);
  EXPECT_LE(difference(norm->weight.grad(), expected[3]), 1e-6);
}

}  // namespace
}  // namespace partita::internal
