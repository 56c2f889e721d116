// ZeroOptimizer with optimizers of torch, other norms, and states that go from one layout to another.
#include <limits>

#include "partita/base/error.h"
#include "tests/module/state_of_ranks.h"
#include "tests/module/zero_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

// Optimizers of torch, which update slices: the single process's.
TEST(ZeroOptimizer, TakesOptimizersOfTorch) {
  const int rank = test_world().rank(), ranks = test_world().size();
  using Make = std::function<std::shared_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;
  const std::vector<std::pair<std::string, Make>> all = {
      {"rmsprop",
       [](const auto& p) {
         return std::make_shared<torch::optim::RMSprop>(
             p, torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true).weight_decay(0.01));
       }},
      {"adagrad",
       [](const auto& p) { return std::make_shared<torch::optim::Adagrad>(p, torch::optim::AdagradOptions(1e-2)); }},
      {"adam", [](const auto& p) {
         return std::make_shared<torch::optim::Adam>(p,
                                                     torch::optim::AdamOptions(1e-3).amsgrad(true).weight_decay(0.1));
       }}};
  for (const auto& [name, make] : all)
    for (const int stage : {0, 1, 2, 3}) {
      SmallModule module(1), whole(1);
      module->to(test_device());
      const std::vector<torch::Tensor> parameters = trained(whole);
      for (const torch::Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
      const auto single = make(parameters);
      ZeroOptimizer optimizer(
          named(*module), mesh(),
          {.stage = stage, .max_norm = 0.3, .unit_elements = kUnit, .torch_optimizer = [&](const auto& groups) {
             return make(groups.at(0));
           }});
      for (int64_t step = 0; step < 10; ++step) {
        small_loss(module, small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
        optimizer.step();
        single->zero_grad(false);
        small_loss(whole, small_samples(step * ranks * kSamples, ranks * kSamples)).backward();
        torch::nn::utils::clip_grad_norm_(parameters, 0.3);
        single->step();
      }
      expect_same(module, whole, 1e-5, fmt::format("{}, stage {}", name, stage));
      EXPECT_THAT(error_message([&] { optimizer.set_learning_rate(1); }), HasSubstr("set the rate of that optimizer"));
      const StateDict state = optimizer.state_dict();  // without states, which are the optimizer's own
      EXPECT_EQ(state.size(), rank == 0 ? trained(whole).size() + 2 : 0);
    }
}

TEST(ZeroOptimizer, ClipsByAnyNorm) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()})
    for (const int stage : {0, 1, 2, 3}) {
      SmallModule module(1), whole(1);
      module->to(test_device());
      const std::vector<torch::Tensor> parameters = trained(whole);
      for (const torch::Tensor& parameter : parameters) parameter.mutable_grad() = torch::zeros_like(parameter);
      torch::optim::SGD single(parameters, torch::optim::SGDOptions(1e-2));
      std::vector<torch::Tensor> with_elements;  // torch has no largest element of none
      for (const torch::Tensor& parameter : parameters)
        if (parameter.numel() > 0) with_elements.push_back(parameter);
      const double most = p == 1 ? 10 : p == 2 ? 0.3 : 0.02;
      ZeroOptimizer optimizer(named(*module), mesh(),
                              {.stage = stage,
                               .optimizer = {.kind = OptimizerKind::sgd, .momentum = 0, .weight_decay = 0},
                               .learning_rate = 1e-2,
                               .max_norm = most,
                               .norm_type = p,
                               .unit_elements = kUnit});
      for (int64_t step = 0; step < 3; ++step) {
        small_loss(module, small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
        const ZeroStep r = optimizer.step();
        single.zero_grad(false);
        small_loss(whole, small_samples(step * ranks * kSamples, ranks * kSamples)).backward();
        const double norm = torch::nn::utils::clip_grad_norm_(with_elements, most, p);
        EXPECT_GT(norm, most);
        EXPECT_NEAR(r.grad_norm, norm, 1e-5 * norm) << p << ", stage " << stage;
        single.step();
      }
      expect_same(module, whole, kTolerance, fmt::format("norm {}, stage {}", p, stage));
      // NaN on one rank, in the largest element, too.
      const torch::Tensor loss = small_loss(module, small_samples(rank, 1));
      (rank == ranks - 1 ? loss * NAN : loss).backward();
      EXPECT_TRUE(optimizer.step().skipped);
    }
}

// A write into a part of half-precision weights changes the masters of that part alone.
TEST(ZeroOptimizer, MastersOfWhatIsNotWrittenStay) {
  const int rank = test_world().rank();
  for (const int stage : {0, 1, 2, 3}) {
    SmallModule module(1);
    module->to(test_device());
    module->to(torch::kBFloat16);
    ZeroOptimizer optimizer(named(*module), mesh(), {.stage = stage, .learning_rate = 1e-4, .unit_elements = kUnit});
    for (int step = 0; step < 3; ++step) {
      small_loss(module, small_samples(rank, 2)).backward();
      optimizer.step();
    }
    const StateDict before = optimizer.state_dict();
    {
      torch::NoGradGuard none;
      module->last->weight.narrow(0, 2, 1).fill_(0.5);
      if (stage == 3) module->first->weight.data().narrow(1, 0, 3).zero_();  // a write that no version counts
    }
    StateDict after = optimizer.state_dict();
    if (rank > 0) continue;
    torch::Tensor last = before.at("last.weight").clone(), first = before.at("first.weight").clone();
    last.narrow(0, 2, 1).fill_(0.5);
    if (stage == 3) first.narrow(1, 0, 3).zero_();
    EXPECT_TRUE(after.at("last.weight").equal(last)) << stage;
    EXPECT_TRUE(after.at("first.weight").equal(first)) << stage;
    EXPECT_FALSE(last.to(torch::kBFloat16).to(torch::kFloat).equal(last)) << "masters have more digits";
    after.erase("last.weight"), after.erase("first.weight");
    for (const auto& [key, value] : after) EXPECT_TRUE(value.equal(before.at(key))) << key;
  }
}

// What one stage has written goes on in another, with other units.
TEST(ZeroOptimizer, StateGoesFromOneStageToAnother) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int from : {0, 1, 2, 3}) {
    const int to = 3 - from;
    SmallModule module(1), whole(1), other(5);
    module->to(test_device());
    other->to(test_device());
    module->to(test_device());
    other->frozen.copy_(module->frozen);                                       // is no part of the state
    const ZeroOptimizerOptions options{.learning_rate = 1e-2, .max_norm = 0};  // norms are sums unit by unit
    const auto with = [&](int stage, int64_t unit) {
      ZeroOptimizerOptions o = options;
      o.stage = stage, o.unit_elements = unit;
      return o;
    };
    ZeroOptimizer first(named(*module), mesh(), with(from, kUnit)), second(named(*other), mesh(), with(to, 333)),
        uninterrupted(named(*whole), mesh(), with(from, kUnit));
    const auto step = [&](SmallModule& m, ZeroOptimizer& optimizer, int64_t number) {
      small_loss(m, small_samples((number * ranks + rank) * kSamples, kSamples)).backward();
      optimizer.step();
    };
    for (int64_t s = 0; s < 6; ++s) step(whole, uninterrupted, s);
    for (int64_t s = 0; s < 3; ++s) step(module, first, s);
    step(other, second, 100);
    const StateDict state = first.state_dict();
    EXPECT_EQ(state.empty(), rank != 0);
    StateDict all = on_all_ranks(state);
    EXPECT_TRUE(all.contains("first.weight/adamw.v"));
    EXPECT_EQ(all.at("zero_optimizer/steps").item<int64_t>(), 3);
    second.load_state_dict(all);
    for (int64_t s = 3; s < 6; ++s) step(other, second, s);
    {
      torch::NoGradGuard none;
      const auto expected = whole->named_parameters();
      for (const auto& item : other->named_parameters()) {
        if (!item.value().requires_grad()) continue;
        EXPECT_TRUE(item.value().detach().clone().equal(expected[item.key()].detach().clone())) << item.key();
      }
    }
    // Every rank has a part of this one.
    all["embedding.weight"] = torch::zeros({15, 11});
    const auto load = [&] { second.load_state_dict(all); };
    EXPECT_THAT(error_message(load), HasSubstr("embedding.weight has shape [15, 11] in the state, expected [11, 15]"));
    all.erase("embedding.weight");
    EXPECT_THAT(error_message(load), HasSubstr("the state has no embedding.weight"));
    all["embedding.weight"] = torch::zeros({11, 15});
    all["other.weight"] = torch::zeros({11, 15});
    EXPECT_THAT(error_message(load), HasSubstr("keys, expected"));
    EXPECT_NE(second.weights()[0].tensor.abs().sum().item<double>(), 0) << "an error leaves everything as it was";
  }
}

}  // namespace
}  // namespace partita::internal
