// One linear whose matmuls run in fp8: products of exactly what the rounded operands stand for, the scales it measures
// and saves, and what it keeps from forward to backward.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "partita/ops/fp8.h"
#include "tests/nn/linear_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using reference::expect_close;
using reference::same_bits;
using reference::values;
using test::LinearCase;
using test::LinearOptions;
using test::TestGrads;
using test::wide;
using testing::ElementsAre;
using testing::HasSubstr;

enum Scale : uint8_t { kX, kW, kDY };  // of a linear, in the order in which it saves them

float amax(const at::Tensor& t) { return t.abs().max().item<float>(); }

// The bytes of t rounded to the format with the scale for an amax.
at::Tensor quantized(const at::Tensor& t, float expected, at::ScalarType format) {
  const double last = format == at::kFloat8_e4m3fn ? 448 : 57344;
  return wide(t).mul(fp8_scale(expected, format)).clamp(-last, last).to(at::kFloat).to(format).view(at::kByte);
}
// What they stand for.
at::Tensor value_of(const at::Tensor& t, float expected, at::ScalarType format) {
  return wide(quantized(t, expected, format).view(format)).div(fp8_scale(expected, format));
}
at::Tensor e4m3(const at::Tensor& t) { return value_of(t, amax(t), at::kFloat8_e4m3fn); }
at::Tensor e5m2(const at::Tensor& t) { return value_of(t, amax(t), at::kFloat8_e5m2); }

constexpr int64_t kIn = 48, kOut = 80;

LinearOptions options(DType dtype, LoraOptions lora = {}) {
  return {.shape = {.samples = 2, .length = 16},
          .in = kIn,
          .parts = {{"mlp.gate", 32}, {"mlp.up", 48}},
          .bias = true,
          .measured = false,
          .lora = std::move(lora),
          .dtype = dtype,
          .fp8 = true,
          .before = 2};
}

LoraOptions adapter() { return {.rank = 3, .scale = 0.5F, .parts = {"mlp.up"}}; }

class Fp8Case : public LinearCase {
 public:
  explicit Fp8Case(const LinearOptions& o) : LinearCase(o) { begin_scales(context, saved[kScales]); }

  [[nodiscard]] at::Tensor scale(Scale which) const {
    const at::Tensor all = context.scales.defined() ? context.scales.view({-1}) : saved[kScales];
    return all.narrow(0, (options.before * kScalesOfLinear + which) * kFp8Scale, kFp8Scale);
  }
  [[nodiscard]] float scale(Scale which, int64_t place) const { return scale(which)[place].item<float>(); }
  [[nodiscard]] const at::Tensor& transposed() const { return saved[kFirstSlot]; }
  // What backward reads instead of x: fp8 is of unlike magnitude in x, W and d_y.
  [[nodiscard]] at::Tensor x(uint64_t seed) const { return random(options.in, seed, 5); }
  [[nodiscard]] at::Tensor d_y(uint64_t seed) const { return random(out(), seed, 0.01); }
};

bool all_nan(const at::Tensor& t) { return t.isnan().all().item<bool>(); }
bool is_poison(const at::Tensor& bytes) { return bytes.eq(0xFF).all().item<bool>(); }

TEST(Fp8Linear, ForwardMultipliesWhatTheBytesStandFor) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    Fp8Case c(options(dtype));
    ASSERT_TRUE(c.linear->is_fp8(c.rows()));
    const at::Tensor x = c.x(1), y = c.fresh(kOut), &w = c.weights[LinearCase::kWeight];
    c.linear->forward(c.weights, y, x, c.context, c.saved);
    expect_close(y, values(at::matmul(e4m3(x), e4m3(w).t()).add(wide(c.weights[LinearCase::kBias]))),
                 reference::tolerance(c.type()));
    // Not what the operands were before they were rounded.
    EXPECT_GT(wide(y).sub(at::matmul(wide(x), wide(w).t())).abs().max().item<double>(), 0.1);
    EXPECT_EQ(c.scale(kX, kFp8Expected), amax(x));
    EXPECT_EQ(c.scale(kW, kFp8Expected), amax(w));
    EXPECT_EQ(c.scale(kX, kFp8Inverse), 1 / fp8_scale(amax(x), at::kFloat8_e4m3fn));
    EXPECT_EQ(c.scale(kW, kFp8Inverse), 1 / fp8_scale(amax(w), at::kFloat8_e4m3fn));
    EXPECT_EQ(c.scale(kX, kFp8Measured), 0) << "current scaling measures nothing for later";
    EXPECT_TRUE(same_bits(c.scale(kDY), at::zeros({kFp8Scale}))) << "not yet known";
    EXPECT_EQ(amax(c.saved[LinearCase::kScales].narrow(0, 0, 2 * kScalesOfLinear * kFp8Scale)), 0)
        << "scales of other linears";
  }
}

TEST(Fp8Linear, BackwardReadsWhatForwardKept) {
  for (const DType dtype : {DType::bf16, DType::fp16})
    for (const bool trained : {true, false}) {
      Fp8Case c(options(dtype));
      EXPECT_EQ(c.linear->input_saved(c.rows()), std::nullopt);
      c.saved.kept[LinearCase::kFirstSlot] = true;
      EXPECT_TRUE(c.linear->kept_input(c.saved, LinearCase::kInput, c.rows()));
      c.parameters[LinearCase::kWeight].trainable = trained;
      TestGrads grads(c.parameters);
      at::Tensor sum = at::zeros({kOut, kIn}, at::TensorOptions(at::kDouble));
      for (uint64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
        begin_scales(c.context, c.saved[LinearCase::kScales]);
        const at::Tensor x = c.x(1 + micro_batch), d_y = c.d_y(5 + micro_batch), d_x = c.fresh(kIn);
        c.linear->forward(c.weights, c.fresh(kOut), x, c.context, c.saved);
        EXPECT_TRUE(c.transposed().equal(quantized(x, amax(x), at::kFloat8_e4m3fn).t()));
        c.poison_scratch();
        c.linear->backward(c.weights, d_x, d_y, c.fresh(kIn), c.context, c.saved, grads);  // x is NaN
        expect_close(d_x, values(at::matmul(e5m2(d_y), e4m3(c.weights[LinearCase::kWeight]))),
                     reference::tolerance(c.type()));
        sum.add_(at::matmul(e5m2(d_y).t(), e4m3(x)));
        EXPECT_EQ(c.scale(kDY, kFp8Expected), amax(d_y));
        EXPECT_EQ(c.scale(kDY, kFp8Inverse), 1 / fp8_scale(amax(d_y), at::kFloat8_e5m2));
      }
      if (trained)
        expect_close(grads.gradients[LinearCase::kWeight], values(sum), 1e-5);
      else
        EXPECT_FALSE(grads.gradients[LinearCase::kWeight].defined());
    }
}

// x itself is kept for the adapters; x in 8 bits is made from it in backward.
TEST(Fp8Linear, AdaptersStayInTheLinearsPrecision) {
  Fp8Case c(options(DType::bf16, adapter()));
  EXPECT_EQ(c.linear->input_saved(c.rows()), Recompute::none);
  EXPECT_TRUE(c.linear->kept_input(c.saved, LinearCase::kInput, c.rows()));
  const LinearCase::Adapted a = c.adapted().at(0);
  EXPECT_EQ(a.slot, LinearCase::kFirstSlot + 1);
  const at::Tensor x = c.x(1), d_y = c.d_y(2), y = c.fresh(kOut), d_x = c.fresh(kIn);
  const at::Tensor &w = c.weights[LinearCase::kWeight], wide_a = wide(c.weights[a.a]), wide_b = wide(c.weights[a.b]);
  c.linear->forward(c.weights, y, x, c.context, c.saved);
  EXPECT_TRUE(is_poison(c.transposed())) << "kept beside x";
  const at::Tensor low = at::matmul(wide(x), wide_a.t());
  at::Tensor expected = at::matmul(e4m3(x), e4m3(w).t()).add(wide(c.weights[LinearCase::kBias]));
  expected.narrow(1, a.begin, a.rows).add_(at::matmul(low, wide_b.t()).mul(0.5));
  expect_close(y, values(expected), 3 * reference::tolerance(c.type()));
  expect_close(c.saved[a.slot], values(low), reference::tolerance(c.type()));

  c.poison_scratch();
  TestGrads grads(c.parameters);
  c.linear->backward(c.weights, d_x, d_y, x, c.context, c.saved, grads);
  const at::Tensor d_part = wide(d_y).narrow(1, a.begin, a.rows), d_low = at::matmul(d_part, wide_b).mul(0.5);
  expect_close(d_x, values(at::matmul(e5m2(d_y), e4m3(w)).add(at::matmul(d_low, wide_a))),
               3 * reference::tolerance(c.type()));
  expect_close(grads.gradients[LinearCase::kWeight], values(at::matmul(e5m2(d_y).t(), e4m3(x))), 1e-5);
  expect_close(grads.gradients[a.a], values(at::matmul(d_low.t(), wide(x))), 2 * reference::tolerance(c.type()));
  expect_close(grads.gradients[a.b], values(at::matmul(d_part.t(), low).mul(0.5)), 2 * reference::tolerance(c.type()));
}

// A producer of x or d_y that has measured its amax is believed, so that nobody reads the tensor twice.
TEST(Fp8Linear, TheProducersMeasureIsTaken) {
  LinearOptions o = options(DType::bf16);
  o.measured = true;
  Fp8Case c(o);
  const at::Tensor x = c.x(1), d_y = c.d_y(2), y = c.fresh(kOut), d_x = c.fresh(kIn);
  const at::Tensor& w = c.weights[LinearCase::kWeight];
  const float x_amax = amax(x) / 8, d_amax = amax(d_y) / 16;  // smaller than any measure of the linear
  c.linear->input_amax(c.context, c.saved, c.rows()).fill_(x_amax);
  EXPECT_EQ(c.scale(kX, kFp8Expected), x_amax);
  c.saved.kept[LinearCase::kFirstSlot] = true;
  c.linear->forward(c.weights, y, x, c.context, c.saved);
  EXPECT_EQ(c.scale(kX, kFp8Expected), x_amax);
  EXPECT_EQ(c.scale(kW, kFp8Expected), amax(w)) << "nobody measures W but the linear";
  const at::Tensor x8 = value_of(x, x_amax, at::kFloat8_e4m3fn);
  expect_close(y, values(at::matmul(x8, e4m3(w).t()).add(wide(c.weights[LinearCase::kBias]))),
               reference::tolerance(c.type()));

  TestGrads grads(c.parameters);
  const at::Tensor d_scale = at::zeros({kFp8Scale});
  d_scale[kFp8Expected].fill_(d_amax);
  c.linear->backward(c.weights, d_x, d_y, x, c.context, c.saved, grads, d_scale);
  EXPECT_EQ(d_scale[kFp8Inverse].item<float>(), 1 / fp8_scale(d_amax, at::kFloat8_e5m2));
  EXPECT_EQ(c.scale(kDY, kFp8Expected), 0) << "another scale was given";
  const at::Tensor d8 = value_of(d_y, d_amax, at::kFloat8_e5m2);
  expect_close(d_x, values(at::matmul(d8, e4m3(w))), reference::tolerance(c.type()));
  expect_close(grads.gradients[LinearCase::kWeight], values(at::matmul(d8.t(), x8)), 1e-5);

  // Its own place for the producer of d_y.
  c.linear->gradient_amax(c.context, c.saved, c.rows()).fill_(3);
  EXPECT_EQ(c.scale(kDY, kFp8Expected), 3);
  EXPECT_TRUE(same_bits(c.linear->gradient_scale(c.context, c.saved, c.rows()), c.scale(kDY)));
  EXPECT_EQ(amax(c.saved[LinearCase::kScales].narrow(0, 0, 2 * kScalesOfLinear * kFp8Scale)), 0);
}

TEST(Fp8Linear, OnlyWhatBackwardReadsIsKept) {
  const auto forward = [](const LinearOptions& o, bool kept, bool again) {
    auto c = std::make_unique<Fp8Case>(o);
    c->saved.kept[LinearCase::kFirstSlot] = kept;
    c->linear->forward(c->weights, c->fresh(kOut), c->x(1), c->context, c->saved, again);
    return c;
  };
  LinearOptions o = options(DType::bf16);
  EXPECT_FALSE(is_poison(forward(o, true, false)->transposed()));
  EXPECT_TRUE(is_poison(forward(o, false, false)->transposed())) << "recomputed anyway";
  EXPECT_FALSE(is_poison(forward(o, false, true)->transposed())) << "this is the recomputation";
  o.mode = Mode::evaluate;
  EXPECT_TRUE(is_poison(forward(o, true, false)->transposed())) << "there is no backward";
}

// With the scales of forward, even if what is recomputed were measured otherwise.
TEST(Fp8Linear, RecomputationGivesTheSameBits) {
  for (const bool with_adapter : {false, true}) {
    Fp8Case c(options(DType::bf16, with_adapter ? adapter() : LoraOptions{}));
    c.saved.kept[LinearCase::kFirstSlot] = true;
    const at::Tensor x = c.x(1), y = c.fresh(kOut), again = c.fresh(kOut);
    c.linear->forward(c.weights, y, x, c.context, c.saved);
    const std::vector<at::Tensor> before = {c.saved[LinearCase::kScales].clone(), c.transposed().clone()};
    const auto wipe = [&] {
      for (size_t slot = LinearCase::kFirstSlot; slot < c.saved.slots.size(); ++slot)
        test::fill_with_nan(c.saved.slots[slot]);
      c.poison_scratch();
    };
    wipe();
    c.linear->keep_input(x, c.context, c.saved);
    EXPECT_TRUE(same_bits(c.transposed(), before[1]));
    wipe();
    c.linear->forward(c.weights, again, x, c.context, c.saved, true);
    EXPECT_TRUE(same_bits(again, y));
    EXPECT_TRUE(same_bits(c.transposed(), before[1]));
    EXPECT_TRUE(same_bits(c.saved[LinearCase::kScales], before[0]));
    c.linear->forward(c.weights, again, x.mul(64), c.context, c.saved, true);
    EXPECT_TRUE(same_bits(c.saved[LinearCase::kScales], before[0])) << "measured again";
  }
}

// Delayed scaling: by the amax of earlier steps, while that of this one is measured for the next.
TEST(Fp8Linear, DelayedScalesOutliveTheMicroBatch) {
  for (const bool known : {false, true}) {
    Fp8Case c(options(DType::bf16));
    c.context.scales = at::zeros({3 * kScalesOfLinear, kFp8Scale});
    c.context.scales_known = known;
    c.saved.kept[LinearCase::kFirstSlot] = true;
    test::fill_with_nan(c.saved[LinearCase::kScales]);
    begin_scales(c.context, c.saved[LinearCase::kScales]);
    EXPECT_TRUE(all_nan(c.saved[LinearCase::kScales])) << "scales of the micro-batch are not used";
    EXPECT_FALSE(c.linear->input_amax(c.context, c.saved, c.rows()).defined());
    EXPECT_FALSE(c.linear->gradient_scale(c.context, c.saved, c.rows()).defined());
    EXPECT_FALSE(c.linear->gradient_amax(c.context, c.saved, c.rows()).defined());
    const at::Tensor x = c.x(1), d_y = c.d_y(2), y = c.fresh(kOut), d_x = c.fresh(kIn);
    const at::Tensor& w = c.weights[LinearCase::kWeight];
    // Of earlier steps: x and d_y were smaller, so that some values are now out of range; W was larger.
    const float x_then = known ? amax(x) / 8 : amax(x), w_then = known ? amax(w) * 8 : amax(w),
                d_then = known ? amax(d_y) / 8 : amax(d_y);
    if (known)
      for (const auto& [which, then] : {std::pair(kX, x_then), std::pair(kW, w_then), std::pair(kDY, d_then)})
        c.scale(which)[kFp8Expected].fill_(then);
    c.linear->forward(c.weights, y, x, c.context, c.saved);
    const at::Tensor x8 = value_of(x, x_then, at::kFloat8_e4m3fn), w8 = value_of(w, w_then, at::kFloat8_e4m3fn),
                     d8 = value_of(d_y, d_then, at::kFloat8_e5m2);
    expect_close(y, values(at::matmul(x8, w8.t()).add(wide(c.weights[LinearCase::kBias]))),
                 reference::tolerance(c.type()));
    TestGrads grads(c.parameters);
    c.linear->backward(c.weights, d_x, d_y, x, c.context, c.saved, grads);
    expect_close(d_x, values(at::matmul(d8, w8)), reference::tolerance(c.type()));
    expect_close(grads.gradients[LinearCase::kWeight], values(at::matmul(d8.t(), x8)), 1e-5);
    const std::vector<std::pair<float, float>> expected = {{x_then, amax(x)}, {w_then, amax(w)}, {d_then, amax(d_y)}};
    for (const Scale which : {kX, kW, kDY}) {
      EXPECT_EQ(c.scale(which, kFp8Expected), expected[which].first) << "scale " << int{which};
      EXPECT_EQ(c.scale(which, kFp8Measured), expected[which].second) << "scale " << int{which};
    }
    EXPECT_EQ(amax(c.context.scales.narrow(0, 0, 2 * kScalesOfLinear)), 0) << "scales of other linears";
    // A recomputation and an evaluation measure nothing.
    const at::Tensor before = c.context.scales.clone();
    c.linear->forward(c.weights, y, x.mul(4), c.context, c.saved, true);
    EXPECT_TRUE(same_bits(c.context.scales, before));
    c.context.mode = Mode::evaluate;
    c.context.scales_known = true;
    c.linear->forward(c.weights, y, x.mul(4), c.context, c.saved);
    EXPECT_TRUE(same_bits(c.context.scales, before));
  }
}

// Sizes that fp8 does not take run in the linear's own precision, and keep x as without fp8.
TEST(Fp8Linear, OddSizesRunInTheLinearsPrecision) {
  std::mt19937 random(3);
  for (int round = 0; round < 10; ++round) {
    LinearOptions o = options(DType::bf16);
    o.shape = {.samples = 1, .length = static_cast<int64_t>(1 + random() % 15)};
    Fp8Case c(o);
    o.fp8 = false;
    LinearCase plain(o);
    EXPECT_FALSE(c.linear->is_fp8(c.rows()));
    EXPECT_EQ(c.linear->input_saved(c.rows()), Recompute::none);
    EXPECT_EQ(c.transposed().numel(), 0);
    EXPECT_FALSE(c.linear->input_amax(c.context, c.saved, c.rows()).defined());
    EXPECT_FALSE(c.linear->gradient_scale(c.context, c.saved, c.rows()).defined());
    const at::Tensor x = c.x(1), d_y = c.d_y(2), y = c.fresh(kOut), d_x = c.fresh(kIn), y_plain = c.fresh(kOut),
                     d_plain = c.fresh(kIn);
    TestGrads grads(c.parameters), grads_plain(plain.parameters);
    c.linear->forward(c.weights, y, x, c.context, c.saved);
    plain.linear->forward(c.weights, y_plain, x, plain.context, plain.saved);
    EXPECT_TRUE(same_bits(y, y_plain));
    c.linear->keep_input(x, c.context, c.saved);
    c.linear->backward(c.weights, d_x, d_y, x, c.context, c.saved, grads);
    plain.linear->backward(c.weights, d_plain, d_y, x, plain.context, plain.saved, grads_plain);
    EXPECT_TRUE(same_bits(d_x, d_plain));
    EXPECT_TRUE(same_bits(grads.gradients[LinearCase::kWeight], grads_plain.gradients[LinearCase::kWeight]));
    EXPECT_EQ(amax(c.saved[LinearCase::kScales]), 0);
  }
}

// Where the parts of the ranks differ in size, one that fp8 does not take is enough.
TEST(Fp8Linear, AllTensorParallelRanksOrNone) {
  std::mt19937 random(5);
  int fits = 0, fits_in_part = 0;
  for (int round = 0; round < 200; ++round) {
    LinearOptions o = options(DType::bf16);
    const bool rows = random() % 2 == 0;
    const int64_t quantum = int64_t{4} << random() % 3, extent = quantum * static_cast<int64_t>(4 + random() % 12);
    const int ranks = 1 + static_cast<int>(random() % 4);
    o.split = rows ? Split::rows : Split::columns;
    o.in = rows ? 32 : extent;
    o.parts = {{.name = "mlp.down", .rows = rows ? extent : 32, .quantum = quantum}};
    o.bias = false;
    std::vector<bool> found;
    int multiples = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      o.tensor = {.rank = rank, .ranks = ranks};
      const LinearCase c(o);
      found.push_back(c.linear->is_fp8(32));
      const at::Tensor& own = c.weights[LinearCase::kWeight];
      multiples += own.size(0) % 16 == 0 && own.size(1) % 16 == 0 ? 1 : 0;
    }
    EXPECT_EQ(found, std::vector<bool>(static_cast<size_t>(ranks), multiples == ranks)) << extent << " over " << ranks;
    fits += multiples == ranks ? 1 : 0;
    fits_in_part += multiples > 0 && multiples < ranks ? 1 : 0;
  }
  EXPECT_GT(fits, 20);
  EXPECT_GT(fits_in_part, 20);
}

TEST(Fp8Linear, InfinityMakesEverythingNaN) {
  Fp8Case c(options(DType::bf16));
  c.saved.kept[LinearCase::kFirstSlot] = true;
  const at::Tensor x = c.x(1), y = c.fresh(kOut), d_x = c.fresh(kIn);
  x[5][7].fill_(std::numeric_limits<double>::infinity());
  c.linear->forward(c.weights, y.zero_(), x, c.context, c.saved);
  EXPECT_TRUE(all_nan(y));
  TestGrads grads(c.parameters);
  c.linear->backward(c.weights, d_x, c.d_y(2), x, c.context, c.saved, grads);
  EXPECT_FALSE(d_x.isnan().any().item<bool>()) << "d_x does not depend on x";
  EXPECT_TRUE(all_nan(grads.gradients[LinearCase::kWeight]));
}

TEST(Fp8Linear, ListsBuffersAndScratch) {
  const LinearCase c(options(DType::bf16, adapter()));
  EXPECT_EQ(c.places.slot, LinearCase::kFirstSlot + 2);
  EXPECT_EQ(c.places.linear, 3);
  ASSERT_EQ(c.saved_specs.size(), 4U);
  EXPECT_THAT(c.saved_specs[LinearCase::kScales].shape, ElementsAre(3 * 3 * kFp8Scale));
  EXPECT_EQ(c.saved_specs[LinearCase::kScales].saved_up_to, Recompute::full);
  EXPECT_EQ(c.saved_specs[LinearCase::kScales].dtype, DType::fp32);
  EXPECT_THAT(c.saved_specs[2].shape, ElementsAre(kIn, 32));
  EXPECT_EQ(c.saved_specs[2].dtype, DType::uint8);
  EXPECT_EQ(c.saved_specs[2].saved_up_to, std::nullopt) << "made in backward from x, which adapters keep";
  EXPECT_THAT(c.saved_specs[3].shape, ElementsAre(32, 3));
  EXPECT_EQ(LinearCase(options(DType::bf16)).saved_specs[2].saved_up_to, Recompute::none);
  ASSERT_EQ(c.scratch_specs.size(), 6U);
  EXPECT_THAT(c.scratch_specs[3].shape, ElementsAre(32 * kOut));  // the wider of x and d_y
  EXPECT_THAT(c.scratch_specs[4].shape, ElementsAre(32 * kOut));
  EXPECT_THAT(c.scratch_specs[5].shape, ElementsAre(kIn * kOut));
  for (const size_t i : {3, 4, 5}) EXPECT_EQ(c.scratch_specs[i].dtype, DType::uint8);
  EXPECT_THAT(linear_scales(4, true).shape, ElementsAre(4 * kScalesOfLinear * kFp8Scale));
  EXPECT_THAT(linear_scales(4, false).shape, ElementsAre(0));
}

TEST(Fp8Linear, TheScaleOfABranchBeginsUnmeasured) {
  Context context;
  context.outputs.scale = at::full({kFp8Scale}, 7.0);
  EXPECT_FALSE(begin_branch_scale(context, false).defined());
  EXPECT_EQ(amax(context.outputs.scale), 7);
  const at::Tensor scale = begin_branch_scale(context, true);
  EXPECT_TRUE(scale.is_same(context.outputs.scale));
  EXPECT_EQ(amax(scale), 0);
  context.scales = at::zeros({1, kFp8Scale});
  EXPECT_FALSE(begin_branch_scale(context, true).defined()) << "delayed";
}

TEST(Fp8Linear, Fp32IsAnError) {
  Fp8Case c(options(DType::fp32));
  EXPECT_THAT(error_message([&] { c.linear->forward(c.weights, c.fresh(kOut), c.x(1), c.context, c.saved); }),
              HasSubstr("x must be a matrix of bf16 or fp16"));
}

}  // namespace
}  // namespace partita::internal
