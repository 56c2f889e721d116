// One linear by itself, with bias and adapters: values against plain matmuls in fp64, odd shapes, NaN wherever nothing
// has been written.
#include "partita/nn/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/nn/linear_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using reference::same_bits;
using reference::values;
using test::LinearCase;
using test::LinearOptions;
using test::TestGrads;
using test::wide;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr DType kDTypes[] = {DType::fp32, DType::bf16, DType::fp16};

// A value in fp64, and how far from it a computation in the linear's dtype may be.
struct Bounded {
  at::Tensor value, error;
};

constexpr double kFp32Sums = 1e-6;  // of the magnitudes that a product adds up

Bounded exact(const at::Tensor& t) { return {wide(t), at::zeros(t.sizes(), at::TensorOptions(at::kDouble))}; }
// Rounded to the dtype of t; the smallest fp16 numbers are 6e-8 apart.
Bounded rounded(const Bounded& b, DType dtype) {
  const double unit = dtype == DType::fp32   ? std::ldexp(1, -24)
                      : dtype == DType::bf16 ? std::ldexp(1, -8)
                                             : std::ldexp(1, -11);
  return {b.value, b.error.add(b.value.abs().add(b.error).mul(unit)).add(1e-7)};
}
Bounded operator+(const Bounded& a, const Bounded& b) { return {a.value.add(b.value), a.error.add(b.error)}; }
Bounded operator*(const Bounded& a, double factor) { return {a.value.mul(factor), a.error.mul(std::abs(factor))}; }
Bounded operator*(const Bounded& a, const at::Tensor& factor) {
  return {a.value.mul(factor), a.error.mul(factor.abs())};
}
Bounded transposed(const Bounded& a) { return {a.value.t(), a.error.t()}; }
Bounded columns(const Bounded& a, int64_t begin, int64_t count) {
  return {a.value.narrow(1, begin, count), a.error.narrow(1, begin, count)};
}
Bounded product(const Bounded& a, const Bounded& b) {
  const at::Tensor a_size = a.value.abs(), b_size = b.value.abs();
  return {at::matmul(a.value, b.value), at::matmul(a_size, b_size)
                                            .mul(kFp32Sums)
                                            .add(at::matmul(a_size, b.error))
                                            .add(at::matmul(a.error, b_size.add(b.error)))};
}

void expect_within(const at::Tensor& found, const Bounded& b) {
  ASSERT_EQ(found.sizes(), b.value.sizes());
  const reference::Values is = values(found), should = values(b.value), may = values(b.error);
  for (size_t i = 0; i < is.size(); ++i)
    ASSERT_LE(std::abs(is[i] - should[i]), may[i]) << "element " << i << ": " << is[i] << " instead of " << should[i];
}

// What the linear computes of x and d_y, from the definition in linear.h.
struct Expected {
  Bounded y, d_x;
  std::vector<Bounded> low;        // [adapter]: x A^T
  std::vector<Bounded> gradients;  // [parameter]; undefined: not written
};

Expected expected(const LinearCase& c, const at::Tensor& x, const at::Tensor& d_y) {
  const DType dtype = c.options.dtype;
  const auto weight = [&](size_t p) { return exact(c.weights[p]); };
  const Bounded input = exact(x), d = exact(d_y);
  Expected e;
  e.gradients.resize(c.weights.size());
  e.y = product(input, transposed(weight(LinearCase::kWeight)));
  if (c.options.bias) {
    const at::Tensor ones = at::ones({1, c.rows()}, at::TensorOptions(at::kDouble)),
                     bias = c.weights[LinearCase::kBias];
    e.y = e.y + Bounded{wide(bias), wide(bias).abs().mul(kFp32Sums)};
    const Bounded sum = product(exact(ones), d);
    e.gradients[LinearCase::kBias] = {sum.value[0], sum.error[0]};
  }
  e.y = rounded(e.y, dtype);
  e.d_x = rounded(product(d, weight(LinearCase::kWeight)), dtype);
  e.gradients[LinearCase::kWeight] = product(transposed(d), input);
  const double scale = c.options.lora.scale;
  for (const LinearCase::Adapted& adapter : c.adapted()) {
    const at::Tensor mask = c.multipliers(adapter);
    const bool drops = c.options.mode == Mode::train && c.options.lora.dropout > 0;
    const auto masked = [&](const Bounded& b) { return drops ? rounded(b * mask, dtype) : b; };
    const Bounded dropped = masked(input), d_part = columns(d, adapter.begin, adapter.rows);
    const Bounded a = weight(adapter.a), b = weight(adapter.b);
    const Bounded low = rounded(product(dropped, transposed(a)), dtype);
    const Bounded d_low = rounded(product(d_part, b) * scale, dtype);
    const Bounded added = product(low, transposed(b)) * scale;
    const Bounded sum = rounded(columns(e.y, adapter.begin, adapter.rows) + added, dtype);
    e.y.value.narrow(1, adapter.begin, adapter.rows).copy_(sum.value);
    e.y.error.narrow(1, adapter.begin, adapter.rows).copy_(sum.error);
    e.low.push_back(low);
    const Bounded d_dropped = product(d_low, a);
    e.d_x = rounded(e.d_x + masked(drops ? rounded(d_dropped, dtype) : d_dropped), dtype);
    e.gradients[adapter.a] = product(transposed(d_low), dropped);
    e.gradients[adapter.b] = product(transposed(d_part), low) * scale;
  }
  for (size_t p = 0; p < c.weights.size(); ++p)
    if (!c.parameters[p].trainable) e.gradients[p] = {};
  return e;
}

// Any number of rows, channels and parts, packed or not, with any of the parts adapted.
LinearOptions random_options(std::mt19937& random, DType dtype) {
  const auto up_to = [&](unsigned most) { return static_cast<int64_t>(1 + random() % most); };
  static constexpr const char* kNames[] = {"attention.q", "attention.k", "attention.v"};
  LinearOptions o{.shape = {.samples = up_to(4), .length = up_to(13)}, .in = up_to(70), .dtype = dtype};
  for (int64_t parts = up_to(3), i = 0; i < parts; ++i) o.parts.push_back({.name = kNames[i], .rows = up_to(40)});
  o.bias = random() % 2 == 0;
  if (random() % 4 != 0) {
    o.lora = {.rank = up_to(6), .scale = 0.25F * static_cast<float>(up_to(8)), .parts = {"mlp.up"}};
    if (random() % 2 == 0) o.lora.dropout = 0.3F;
    for (const ParameterPart& part : o.parts)
      if (random() % 3 != 0) o.lora.parts.emplace_back(part.name);
    if (random() % 4 == 0) {
      o.adapter = "attention.qkv";
      o.lora.parts.emplace_back("attention.qkv");
    }
  }
  if (random() % 5 == 0) o.mode = Mode::evaluate;
  o.seed = random();
  return o;
}

std::string name_of(const LinearCase& c) {
  return fmt::format("{} [{} x {}, {}] to {} in {} parts, {} adapters of rank {}, dropout {}, bias {}, mode {}",
                     partita::name_of(c.options.dtype), c.options.shape.samples, c.options.shape.length, c.options.in,
                     c.out(), c.options.parts.size(), c.linear->adapters(), c.options.lora.rank, c.options.lora.dropout,
                     c.options.bias, static_cast<int>(c.options.mode));
}

TEST(Linear, ForwardAndBackwardFollowTheFormula) {
  std::mt19937 random(1);
  int with_dropout = 0, frozen = 0;
  for (const DType dtype : kDTypes)
    for (int round = 0; round < 40; ++round) {
      LinearCase c(random_options(random, dtype));
      SCOPED_TRACE(name_of(c));
      ASSERT_EQ(static_cast<size_t>(c.linear->adapters()), c.adapted().size());
      for (ParameterSpec& p : c.parameters) p.trainable = random() % 3 != 0;
      with_dropout += c.linear->adapters() > 0 && c.options.lora.dropout > 0 ? 1 : 0;
      frozen += c.parameters[LinearCase::kWeight].trainable ? 0 : 1;
      TestGrads grads(c.parameters);
      std::vector<Bounded> sums(c.parameters.size());
      for (uint64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
        const at::Tensor x = c.random(c.options.in, 10 + micro_batch), d_y = c.random(c.out(), 20 + micro_batch);
        const at::Tensor y = c.fresh(c.out()), d_x = c.fresh(c.options.in), x_before = x.clone(),
                         d_before = d_y.clone();
        const Expected e = expected(c, x, d_y);
        c.linear->forward(c.weights, y, x, c.context, c.saved);
        expect_within(y, e.y);
        for (size_t k = 0; k < e.low.size(); ++k) expect_within(c.saved[c.adapted()[k].slot], e.low[k]);
        c.poison_scratch();
        c.linear->backward(c.weights, d_x, d_y, x, c.context, c.saved, grads);
        expect_within(d_x, e.d_x);
        EXPECT_TRUE(same_bits(x, x_before) && same_bits(d_y, d_before));
        for (size_t p = 0; p < sums.size(); ++p)
          if (e.gradients[p].value.defined())
            sums[p] = sums[p].value.defined() ? sums[p] + e.gradients[p] : e.gradients[p];
      }
      for (size_t p = 0; p < sums.size(); ++p) {
        SCOPED_TRACE(c.parameters[p].name);
        if (sums[p].value.defined()) {
          expect_within(grads.gradients[p], rounded(sums[p], DType::fp32));
        } else if (grads.gradients[p].defined()) {
          EXPECT_TRUE(grads.gradients[p].isnan().all().item<bool>()) << "not of this linear, but written";
        }
      }
    }
  EXPECT_GT(with_dropout, 20);
  EXPECT_GT(frozen, 20);
}

// The masks of two adapters, of two layers and of two linears that follow each other are not the same.
TEST(Linear, EveryAdapterHasAMaskOfItsOwn) {
  const LinearOptions o{.shape = {2, 9},
                        .in = 33,
                        .parts = {{"attention.q", 3}, {"attention.k", 3}},
                        .lora = {.rank = 2, .dropout = 0.5F, .parts = {"attention.q", "attention.k"}}};
  LinearCase c(o);
  const std::vector<LinearCase::Adapted> adapted = c.adapted();
  EXPECT_EQ(c.places.adapter, 2);
  c.weights[adapted[1].a].copy_(c.weights[adapted[0].a]);
  const at::Tensor x = c.random(o.in, 1), y = c.fresh(c.out());
  c.linear->forward(c.weights, y, x, c.context, c.saved);
  EXPECT_FALSE(c.saved[adapted[0].slot].equal(c.saved[adapted[1].slot]));
  // Without dropout they are.
  c.context.mode = Mode::evaluate;
  c.linear->forward(c.weights, y, x, c.context, c.saved);
  EXPECT_TRUE(same_bits(c.saved[adapted[0].slot], c.saved[adapted[1].slot]));
}

TEST(Linear, RowsWithoutAnAdapterAreThoseOfThePlainLinear) {
  for (const DType dtype : kDTypes) {
    LinearOptions o{.shape = {3, 5},
                    .in = 37,
                    .parts = {{"attention.q", 7}, {"attention.k", 11}, {"attention.v", 5}},
                    .bias = true,
                    .dtype = dtype};
    LinearCase plain(o);
    o.lora = {.rank = 3, .parts = {"attention.k"}};
    LinearCase adapted(o);
    ASSERT_EQ(plain.linear->adapters(), 0);
    ASSERT_EQ(adapted.linear->adapters(), 1);
    const at::Tensor x = plain.random(o.in, 1), y = plain.fresh(23), z = plain.fresh(23);
    plain.linear->forward(plain.weights, y, x, plain.context, plain.saved);
    adapted.linear->forward(adapted.weights, z, x, adapted.context, adapted.saved);
    const auto rows = [](const at::Tensor& t, int64_t begin, int64_t count) {
      return t.narrow(1, begin, count).contiguous();
    };
    EXPECT_TRUE(same_bits(rows(y, 0, 7), rows(z, 0, 7)));
    EXPECT_TRUE(same_bits(rows(y, 18, 5), rows(z, 18, 5)));
    EXPECT_TRUE(y.narrow(1, 7, 11).ne(z.narrow(1, 7, 11)).any().item<bool>());
    // B of a new model is zero: nothing changes.
    adapted.weights[adapted.adapted()[0].b].zero_();
    adapted.linear->forward(adapted.weights, z, x, adapted.context, adapted.saved);
    EXPECT_TRUE(same_bits(y, z));
  }
}

// x is read by the weight's gradient before d_x overwrites it.
TEST(Linear, WithoutAdaptersDXMayBeX) {
  for (const DType dtype : kDTypes) {
    LinearCase c({.shape = {3, 7}, .in = 29, .parts = {{"mlp.down", 29}}, .bias = true, .dtype = dtype});
    const at::Tensor x = c.random(29, 1), d_y = c.random(29, 2), d_x = c.fresh(29), both = x.clone();
    TestGrads apart(c.parameters), in_place(c.parameters);
    c.linear->backward(c.weights, d_x, d_y, x, c.context, c.saved, apart);
    c.linear->backward(c.weights, both, d_y, both, c.context, c.saved, in_place);
    EXPECT_TRUE(same_bits(both, d_x));
    EXPECT_TRUE(same_bits(in_place.gradients[LinearCase::kWeight], apart.gradients[LinearCase::kWeight]));
  }
}

TEST(Linear, RecomputationGivesTheSameBits) {
  std::mt19937 random(2);
  int adapters = 0;
  for (const DType dtype : kDTypes)
    for (int round = 0; round < 20; ++round) {
      LinearCase c(random_options(random, dtype));
      SCOPED_TRACE(name_of(c));
      adapters += c.linear->adapters();
      const at::Tensor x = c.random(c.options.in, 1), y = c.fresh(c.out()), again = c.fresh(c.out());
      c.linear->forward(c.weights, y, x, c.context, c.saved);
      std::vector<at::Tensor> before;
      for (const at::Tensor& slot : c.saved.slots) before.push_back(slot.clone());
      const auto expect_as_before = [&] {
        for (const LinearCase::Adapted& a : c.adapted())
          EXPECT_TRUE(same_bits(c.saved[a.slot], before[static_cast<size_t>(a.slot)]));
        for (const at::Tensor& slot : c.saved.slots) test::fill_with_nan(slot);
        c.poison_scratch();
      };
      for (const at::Tensor& slot : c.saved.slots) test::fill_with_nan(slot);
      c.linear->recompute(c.weights, x, c.context, c.saved);
      c.linear->keep_input(x, c.context, c.saved);  // nothing without fp8
      EXPECT_TRUE(c.saved[LinearCase::kInput].isnan().all().item<bool>());
      expect_as_before();
      c.linear->forward(c.weights, again, x, c.context, c.saved, true);
      expect_as_before();
      EXPECT_TRUE(same_bits(again, y));
    }
  EXPECT_GT(adapters, 20);
}

TEST(Linear, ListsParametersBuffersAndScratch) {
  const LinearCase c({.shape = {2, 5},
                      .in = 12,
                      .parts = {{"attention.q", 8, 4}, {"attention.k", 4, 2}, {"attention.v", 6, 2}},
                      .lora = {.rank = 3, .dropout = 0.1F, .parts = {"attention.q", "attention.v", "mlp.up"}},
                      .dtype = DType::bf16});
  ASSERT_EQ(c.parameters.size(), 7U);
  EXPECT_EQ(c.parameters[LinearCase::kWeight].split, Split::rows);
  ASSERT_EQ(c.parameters[LinearCase::kWeight].parts.size(), 3U);
  const ParameterSpec &a = c.parameters[5], &b = c.parameters[6];
  EXPECT_EQ(c.parameters[3].name, "layers.3.attention.q.lora_a");
  EXPECT_EQ(c.parameters[4].name, "layers.3.attention.q.lora_b");
  EXPECT_EQ(a.name, "layers.3.attention.v.lora_a");
  EXPECT_EQ(b.name, "layers.3.attention.v.lora_b");
  EXPECT_THAT(a.shape, ElementsAre(3, 12));
  EXPECT_THAT(b.shape, ElementsAre(6, 3));
  EXPECT_DOUBLE_EQ(a.init.std, 1.0 / 6);  // 1 / sqrt(3 * 12)
  EXPECT_EQ(a.init.mean, 0);
  EXPECT_EQ(b.init.std, 0);
  EXPECT_TRUE(a.decay && b.decay && a.adapter && b.adapter);
  EXPECT_EQ(a.split, Split::none);
  EXPECT_EQ(b.split, Split::rows);
  ASSERT_EQ(b.parts.size(), 1U);
  EXPECT_EQ(b.parts[0].rows, 6);
  EXPECT_EQ(b.parts[0].quantum, 2);
  EXPECT_EQ(c.places.parameter, LinearCase::kFirstAdapter + 4);
  EXPECT_EQ(c.places.slot, LinearCase::kFirstSlot + 2);
  EXPECT_EQ(c.places.adapter, 2);
  EXPECT_EQ(c.places.linear, 1);
  ASSERT_EQ(c.saved_specs.size(), 4U);  // scales, x, and x A^T twice
  EXPECT_THAT(c.saved_specs[LinearCase::kScales].shape, ElementsAre(0));
  EXPECT_EQ(c.saved_specs[LinearCase::kInput].saved_up_to, Recompute::none);
  EXPECT_TRUE(c.linear->kept_input(c.saved, LinearCase::kInput, c.rows()));
  for (const size_t slot : {2, 3}) {
    EXPECT_THAT(c.saved_specs[slot].shape, ElementsAre(10, 3));
    EXPECT_EQ(c.saved_specs[slot].saved_up_to, Recompute::mlp);
    EXPECT_EQ(c.saved_specs[slot].dtype, DType::bf16);
  }
  ASSERT_EQ(c.scratch_specs.size(), 3U);
  EXPECT_THAT(c.scratch_specs[1].shape, ElementsAre(10 * 3));
  EXPECT_THAT(c.scratch_specs[2].shape, ElementsAre(10 * 12));
}

TEST(Linear, WithoutDropoutThereIsNoRoomForIt) {
  const LinearCase c({.shape = {2, 5}, .in = 12, .parts = {{"mlp.up", 8}}, .lora = {.rank = 3, .parts = {"mlp.up"}}});
  ASSERT_EQ(c.scratch_specs.size(), 3U);
  EXPECT_THAT(c.scratch_specs[2].shape, ElementsAre(0));
  const LinearCase none({.shape = {2, 5}, .in = 12, .parts = {{"mlp.up", 8}}});
  EXPECT_EQ(none.scratch_specs.size(), 1U);
  EXPECT_EQ(none.saved_specs.size(), 2U);
  EXPECT_EQ(none.places.slot, LinearCase::kFirstSlot);
}

// A is cut where the columns of W are, B where its rows are; what y is added to by all ranks is not cut.
TEST(Linear, AdaptersAndBiasAreSplitLikeTheWeight) {
  LinearOptions o{.shape = {1, 2},
                  .in = 12,
                  .parts = {{"attention.output", 10, 4}},
                  .bias = true,
                  .split = Split::columns,
                  .lora = {.rank = 3, .parts = {"attention.output", "attention.qkv"}}};
  LinearCase columns(o);
  EXPECT_EQ(columns.parameters[LinearCase::kWeight].split, Split::columns);
  const ParameterSpec& a = columns.parameters[LinearCase::kFirstAdapter];
  EXPECT_EQ(a.split, Split::columns);
  ASSERT_EQ(a.parts.size(), 1U);
  EXPECT_EQ(a.parts[0].rows, 3);
  EXPECT_EQ(a.parts[0].quantum, 4);
  EXPECT_EQ(columns.parameters[LinearCase::kFirstAdapter + 1].split, Split::none);
  columns.linear->split_bias(columns.parameters[LinearCase::kBias]);
  EXPECT_EQ(columns.parameters[LinearCase::kBias].split, Split::none);
  EXPECT_TRUE(columns.parameters[LinearCase::kBias].parts.empty());

  o.split = Split::rows;
  o.parts = {{"attention.q", 8, 4}, {"attention.k", 6, 2}};
  o.adapter = "attention.qkv";
  LinearCase whole(o);
  ASSERT_EQ(whole.linear->adapters(), 1);
  const ParameterSpec& b = whole.parameters[LinearCase::kFirstAdapter + 1];
  EXPECT_EQ(b.name, "layers.3.attention.qkv.lora_b");
  EXPECT_THAT(b.shape, ElementsAre(14, 3));
  ASSERT_EQ(b.parts.size(), 2U) << "split with q and k, whose rows it covers";
  EXPECT_EQ(b.parts[1].rows, 6);
  whole.linear->split_bias(whole.parameters[LinearCase::kBias]);
  EXPECT_EQ(whole.parameters[LinearCase::kBias].split, Split::rows);
  ASSERT_EQ(whole.parameters[LinearCase::kBias].parts.size(), 2U);
  EXPECT_EQ(whole.parameters[LinearCase::kBias].parts[1].quantum, 2);
}

TEST(Linear, WrongSizesAreNamed) {
  LinearCase c(
      {.shape = {1, 4}, .in = 6, .parts = {{"mlp.up", 5}}, .bias = true, .lora = {.rank = 2, .parts = {"mlp.up"}}});
  const auto forward = [&](const at::Tensor& y, const at::Tensor& x) {
    return error_message([&] { c.linear->forward(c.weights, y, x, c.context, c.saved); });
  };
  EXPECT_THAT(forward(c.fresh(5), c.random(7, 1)), HasSubstr("w: shape [5, 6], expected [5, 7]"));
  EXPECT_THAT(forward(c.fresh(4), c.random(6, 1)), HasSubstr("y: shape [4, 4], expected [4, 5]"));
  EXPECT_THAT(forward(c.fresh(5), c.random(6, 1).to(at::kBFloat16)), HasSubstr("w: dtype Float, expected BFloat16"));
  EXPECT_EQ(forward(c.fresh(5), c.random(6, 1)), "no error");
  const at::Tensor a = std::exchange(c.weights[LinearCase::kFirstAdapter], at::zeros({3, 6}));
  EXPECT_THAT(forward(c.fresh(5), c.random(6, 1)), HasSubstr("y: shape [4, 2], expected [4, 3]"));
  c.weights[LinearCase::kFirstAdapter] = a;
  const auto backward = [&](const at::Tensor& d_x, const at::Tensor& d_y) {
    TestGrads grads(c.parameters);
    return error_message([&] { c.linear->backward(c.weights, d_x, d_y, c.random(6, 1), c.context, c.saved, grads); });
  };
  EXPECT_THAT(backward(c.fresh(6), c.random(4, 1)), HasSubstr("d_bias: shape [5], expected [4]"));
  EXPECT_THAT(backward(c.fresh(7), c.random(5, 1)), HasSubstr("d_x: shape [4, 7], expected [4, 6]"));
  EXPECT_EQ(backward(c.fresh(6), c.random(5, 1)), "no error");
}

}  // namespace
}  // namespace partita::internal
