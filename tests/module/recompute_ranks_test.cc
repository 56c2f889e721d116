// recompute() changes no gradient, and works with ZeroOptimizer at every stage.
#include "partita/module/recompute.h"

#include "tests/module/offload_case.h"
#include "tests/module/zero_case.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using namespace test;

// A module that counts its calls, with dropout, a frozen parameter and two inputs.
struct PartImpl : torch::nn::Module {
  PartImpl() {
    register_module("first", first);
    register_module("second", second);
    bias = register_parameter("bias", torch::randn({15}), /*requires_grad=*/false);
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& y) {
    ++calls;
    const torch::Tensor h = torch::dropout(torch::gelu(first(x) + bias), 0.3, /*train=*/true);
    return x + second(h) * torch::sigmoid(y);
  }
  torch::nn::Linear first{7, 15}, second{15, 7};
  torch::Tensor bias;
  int calls = 0;
};
TORCH_MODULE(Part);

struct ChainImpl : torch::nn::Module {
  explicit ChainImpl(bool again) : recomputes(again) {
    torch::manual_seed(3);
    for (int i = 0; i < 3; ++i) parts.push_back(register_module("part" + std::to_string(i), Part()));
  }
  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& y) {
    torch::Tensor h = x;
    for (Part& part : parts) h = recomputes ? recompute(part, h, y) : part->forward(h, y);
    return h.square().mean();
  }
  bool recomputes;
  std::vector<Part> parts;
};
TORCH_MODULE(Chain);

torch::Tensor numbers(int64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({4, 7});
}

TEST(Recompute, GivesTheSameGradients) {
  Chain plain(false), again(true);
  const torch::Tensor y[] = {numbers(1).requires_grad_(true), numbers(1).requires_grad_(true)};
  const auto run = [&](Chain& chain, const torch::Tensor& with) {
    torch::manual_seed(9);
    const torch::Tensor loss = chain->loss(numbers(2), with);
    const torch::Tensor next = torch::rand({2});  // drawn after forward
    loss.backward();
    EXPECT_TRUE(torch::rand({2}).ne(next).all().item<bool>());
    return loss.item<double>();
  };
  torch::manual_seed(9);
  EXPECT_EQ(run(plain, y[0]), run(again, y[1]));
  EXPECT_TRUE(y[0].grad().equal(y[1].grad()));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plain->parts[i]->calls, 1);
    EXPECT_EQ(again->parts[i]->calls, 2);
    const auto expected = plain->parts[i]->named_parameters();
    for (const auto& item : again->parts[i]->named_parameters())
      if (item.key() == "bias")
        EXPECT_FALSE(item.value().grad().defined());
      else
        EXPECT_TRUE(item.value().grad().equal(expected[item.key()].grad())) << item.key();
  }
  const torch::NoGradGuard none;
  (void)again->loss(numbers(2), numbers(1));
  EXPECT_EQ(again->parts[0]->calls, 3);
}

// Also where the optimizer's states are in host memory and on disk.
TEST(Recompute, WorksAtEveryStage) {
  const TemporaryDirectory folder;
  const int rank = test_world().rank();
  for (const int stage : {0, 1, 2, 3}) {
    Chain plain(false), again(true);
    plain->to(test_device());
    again->to(test_device());
    ZeroOptimizer of_plain(named(*plain), mesh(), {.stage = stage, .learning_rate = 1e-2, .unit_elements = kUnit}),
        of_again(named(*again), mesh(),
                 {.stage = stage,
                  .learning_rate = 1e-2,
                  .unit_elements = kUnit,
                  .offload = offload_of({.host = 0.6, .disk = 0.3}, folder.path(), stage),
                  .poison = true});
    for (int step = 0; step < 4; ++step) {
      const auto run = [&](Chain& chain, ZeroOptimizer& optimizer) {
        torch::manual_seed(100 * step + rank);
        const torch::Tensor loss =
            chain->loss(numbers(10 * step + rank).to(test_device()), numbers(rank).to(test_device()));
        loss.backward();
        return std::pair(loss.item<double>(), optimizer.step().grad_norm);
      };
      EXPECT_EQ(run(plain, of_plain), run(again, of_again)) << "stage " << stage << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace partita::internal
