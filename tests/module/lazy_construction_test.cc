#include "partita/module/lazy_construction.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <sstream>

#include "partita/module/lazy_storage.h"
#include "tests/support/counted_memory.h"

namespace partita::internal {
namespace {

namespace nn = torch::nn;
using testing::HasSubstr;

constexpr int64_t kWidth = 40;  // matrices of 1600 elements are lazy

// What constructors of modules do to their parameters.
struct ManyImpl : nn::Module {
  ManyImpl() {
    register_module("embedding", nn::Embedding(nn::EmbeddingOptions(50, kWidth).padding_idx(3)));
    register_module("linear", nn::Linear(kWidth, kWidth));
    register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth, kWidth})));
    register_module("convolution", nn::Conv2d(kWidth, 5, 3));
    register_module("batch", nn::BatchNorm2d(kWidth));
    register_module("lstm", nn::LSTM(kWidth, kWidth));
    register_module("layer", nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(kWidth, 4)));
    const auto matrix = [&](const char* name) { return register_parameter(name, torch::empty({kWidth, kWidth})); };
    nn::init::normal_(matrix("normal"), 0.5, 0.02);
    nn::init::kaiming_normal_(matrix("kaiming"));
    nn::init::xavier_uniform_(matrix("xavier"), 2);
    nn::init::constant_(matrix("constant"), 0.1);
    nn::init::orthogonal_(matrix("orthogonal"));
    nn::init::sparse_(matrix("sparse"), 0.3);
    nn::init::eye_(matrix("eye"));
    const torch::NoGradGuard none;
    matrix("truncated").uniform_(-0.9, 0.9).erfinv_().mul_(0.02 * std::sqrt(2.)).clamp_(-0.03, 0.03);
    const torch::Tensor parts = matrix("parts").zero_();
    parts.narrow(0, 3, 11).normal_();
    parts.t().narrow(0, 1, 2).uniform_();  // numbers in another order than in memory
    parts.slice(1, 0, kWidth, 3).mul_(torch::linspace(-1, 1, kWidth).unsqueeze(1)).add_(0.5);
    matrix("copied").copy_(parts.t()).div_(3);
    matrix("copied_again").fill_(1).narrow(1, 0, 7).copy_(named_parameters()["copied"].narrow(1, 2, 7));
    parts.select(0, 5).fill_(9);  // after it was copied
    matrix("own_generator").normal_(0, 1, at::detail::createCPUGenerator(5));
    matrix("dropped").bernoulli_(0.25);
    matrix("exponential").exponential_(2).log_().neg_();
    register_parameter("randn", torch::randn({kWidth, kWidth}));
    register_parameter("scaled", torch::randn({kWidth, kWidth}) * 0.02);
    register_parameter("rand", torch::rand({kWidth, kWidth}), /*requires_grad=*/false);
    register_parameter("ones", torch::ones({kWidth, kWidth}));
    register_parameter("full", torch::full({kWidth, kWidth}, 1.5));
    register_parameter("double", torch::randn({kWidth, kWidth}, torch::kDouble));
    register_parameter("half", torch::randn({kWidth, kWidth}, torch::kBFloat16));
    register_parameter("like", torch::randn_like(parts));
    register_parameter("channels", torch::randn({2, 30, 5, 6}).to(torch::MemoryFormat::ChannelsLast));
    register_parameter("vector", torch::randn({2000}));
    register_parameter("table", torch::tensor(std::vector<float>(3000, 0.5F)));
    register_parameter("tied", parts);
    register_buffer("buffer", torch::zeros({kWidth, kWidth}).add_(torch::arange(kWidth)));
    register_buffer("numbers", torch::arange(2000).view({40, 50}));
  }
};
TORCH_MODULE(Many);

// The state of torch's generator, with the normal number that it keeps.
torch::Tensor generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

template <class Make>
auto seeded(const Make& make) {
  torch::manual_seed(7);
  return make();
}

void expect_equal(const nn::Module& found, const nn::Module& expected) {
  const auto compare = [](const auto& mine, const auto& theirs) {
    ASSERT_EQ(mine.size(), theirs.size());
    for (const auto& item : theirs) {
      const torch::Tensor& f = mine[item.key()];
      EXPECT_EQ(f.dtype(), item.value().dtype()) << item.key();
      EXPECT_EQ(f.strides(), item.value().strides()) << item.key();
      EXPECT_EQ(f.requires_grad(), item.value().requires_grad()) << item.key();
      EXPECT_TRUE(f.is_leaf()) << item.key();
      EXPECT_TRUE(f.detach().equal(item.value().detach())) << item.key();
    }
  };
  compare(found.named_parameters(), expected.named_parameters());
  compare(found.named_buffers(), expected.named_buffers());
}

TEST(LazyConstruction, GivesTheBitsOfAnOrdinaryOne) {
  const Many eager = seeded([] { return Many(); });
  const torch::Tensor after = generator_state();
  const Many lazy = seeded([] { return construct_lazily([] { return Many(); }); });
  EXPECT_TRUE(generator_state().equal(after));
  std::vector<std::string> real;
  for (const auto& item : lazy->named_parameters())
    if (!is_lazy(item.value()) && item.value().dim() > 1) real.push_back(item.key());
  EXPECT_THAT(real, testing::UnorderedElementsAre("orthogonal", "sparse", "eye", "scaled", "channels"));
  EXPECT_TRUE(is_lazy(lazy->named_buffers()["buffer"]));
  expect_equal(*lazy, *eager);
  EXPECT_TRUE(generator_state().equal(after)) << "replays draw from copies";
}

// Values are asked for in another order than they were written.
TEST(LazyConstruction, GivesTheSameBitsInAnyOrder) {
  const Many eager = seeded([] { return Many(); }),
             lazy = seeded([] { return construct_lazily([] { return Many(); }); });
  const auto mine = lazy->named_parameters(), theirs = eager->named_parameters();
  for (size_t i = mine.size(); i-- > 0;) {
    const bool was_lazy = is_lazy(mine[i].value());
    EXPECT_TRUE(copy_of_values(mine[i].value()).equal(theirs[i].value())) << mine[i].key();
    EXPECT_EQ(is_lazy(mine[i].value()), was_lazy) << mine[i].key();
  }
}

TEST(LazyConstruction, TakesConversions) {
  const auto make = [] {
    Many many;
    many->to(torch::kBFloat16);
    return many;
  };
  const Many eager = seeded(make), lazy = seeded([&] { return construct_lazily(make); });
  EXPECT_TRUE(is_lazy(lazy->named_parameters()["normal"]));
  expect_equal(*lazy, *eager);
  Many after = seeded([] { return construct_lazily([] { return Many(); }); });
  after->to(torch::kBFloat16);
  expect_equal(*after, *eager);
}

TEST(LazyConstruction, TakesLittleMemory) {
  const CountedMemory counted;
  const int64_t matrix = 4 * 256 * 256;
  nn::Sequential layers;
  {
    const LazyConstruction lazy;
    for (int i = 0; i < 32; ++i) layers->push_back(nn::Linear(256, 256));
  }
  EXPECT_LE(counted.peak(), matrix + 33 * 2048) << "a matrix whose numbers are drawn, and the biases";
  EXPECT_LE(counted.now(), 33 * 2048);
  (void)layers->parameters()[4].sum();
  EXPECT_EQ(counted.now() / matrix, 1) << "what is read is real, and nothing else";
  layers = nullptr;
  EXPECT_EQ(counted.now(), 0);
}

TEST(LazyConstruction, WhatIsReadIsReal) {
  const LazyConstruction lazy;
  const torch::Tensor a = torch::ones({40, 40}), b = torch::full({40, 40}, 2.);
  EXPECT_EQ(a[3][4].item<double>(), 1);
  EXPECT_FALSE(is_lazy(a));
  EXPECT_TRUE(is_lazy(b));
  b.mul_(a);  // by a large one that is real
  EXPECT_FALSE(is_lazy(b));
  EXPECT_EQ(b.sum().item<double>(), 2 * 1600);
  b.fill_(3);
  EXPECT_EQ(b.sum().item<double>(), 3 * 1600);
}

TEST(LazyConstruction, ManyWritesAreBounded) {
  const torch::Tensor counter = construct_lazily([] {
    const torch::Tensor made = torch::zeros({40, 40});
    EXPECT_TRUE(is_lazy(made.add_(1)));
    for (int i = 1; i < 300; ++i) made.add_(1);
    return made;
  });
  EXPECT_FALSE(is_lazy(counter));
  EXPECT_EQ(counter.mean().item<double>(), 300);
}

// Where it is made, not where it is needed.
TEST(LazyConstruction, ErrorsAreThoseOfTorch) {
  const LazyConstruction lazy;
  const torch::Tensor a = torch::ones({40, 40}), leaf = torch::ones({40, 40}, torch::requires_grad());
  const auto message = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const c10::Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(message([&] { a.normal_(0, -1); }), HasSubstr("std >= 0.0"));
  EXPECT_THAT(message([&] { a.copy_(torch::ones({40, 41})); }), HasSubstr("must match the size"));
  EXPECT_THAT(message([&] { a.mul_(torch::ones({3})); }), HasSubstr("must match the size"));
  EXPECT_THAT(message([&] { leaf.zero_(); }), HasSubstr("a leaf Variable that requires grad"));
  EXPECT_EQ(a.sum().item<double>(), 1600);
  const torch::Tensor b = torch::ones({40, 40});
  std::ostringstream file;
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { (void)b.data_ptr<float>(); }, [&] { (void)b.const_data_ptr(); }, [&] { torch::save(b, file); }})
    EXPECT_THAT(message(read),
                HasSubstr("constructed lazily and has none yet: let an operation of torch read it first"));
  EXPECT_EQ(b.sum().item<double>(), 1600);
  EXPECT_EQ(b.data_ptr<float>()[1599], 1);
  torch::save(b, file);
}

TEST(LazyConstruction, EndsWithItsScope) {
  const auto makes_lazy = [] { return is_lazy(torch::empty({40, 40})); };
  EXPECT_FALSE(makes_lazy());
  try {
    const LazyConstruction lazy;
    {
      const LazyConstruction nested;
      EXPECT_TRUE(makes_lazy());
    }
    EXPECT_TRUE(makes_lazy());
    throw std::runtime_error("a constructor failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(makes_lazy());
  EXPECT_FALSE(any_lazy());
}

// A module that is trained as it is.
TEST(LazyConstruction, ModulesWorkAsUsual) {
  const auto train = [](nn::Sequential model) {
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      model->forward(torch::linspace(-1, 1, 80).view({2, 40})).square().mean().backward();
      optimizer.step();
    }
    return model;
  };
  const auto make = [] { return nn::Sequential(nn::Linear(40, 40), nn::BatchNorm1d(40), nn::Linear(40, 50)); };
  const nn::Sequential eager = train(seeded(make)), lazy = train(seeded([&] { return construct_lazily(make); }));
  expect_equal(*lazy, *eager);
}

}  // namespace
}  // namespace partita::internal
