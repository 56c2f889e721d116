#include "partita/ops/norm.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "tests/ops/dropout_reference.h"
#include "tests/ops/parts.h"

namespace partita::internal {
namespace {

using namespace reference;

struct Case {
  int64_t samples, length, C;
  bool sum = true, bias = true;
  float p = 0;
  bool rms = false;
};
const Case kCases[] = {{1, 1, 1},
                       {1, 3, 7},
                       {2, 5, 16},
                       {3, 4, 33, true, false},
                       {2, 9, 100, false},
                       {1, 70, 384},
                       {0, 8, 24},
                       {2, 5, 16, true, true, 0.1F},
                       {3, 7, 33, false, false, 0.5F},
                       {2, 33, 130, true, true, 0.2F},
                       {1, 1, 5, false, true, 0.9F},
                       {4, 40, 384, true, true, 0.1F},
                       {1, 1, 1, true, false, 0, true},
                       {2, 9, 33, true, false, 0, true},
                       {1, 70, 384, false, false, 0, true},
                       {0, 8, 24, true, false, 0, true},
                       {3, 7, 130, true, true, 0.3F, true}};

Dropout dropout_of(const Case& c) { return reference::dropout_of(c.p, c.samples); }
Values multipliers(const Case& c) { return dropout_multipliers(c.p, c.samples, c.length * c.C); }

AddNorm forward_of(const Case& c, at::ScalarType dtype) {
  const int64_t N = c.samples * c.length;
  AddNorm op;
  if (c.sum) op.sum = random({N, c.C}, dtype, 1);
  op.branch = random({N, c.C}, dtype, 2);
  if (c.bias) op.bias = random({c.C}, dtype, 3);
  op.dropout = dropout_of(c);
  op.weight = random({c.C}, dtype, 4, 1, 0.2);
  if (!c.rms) op.norm_bias = random({c.C}, dtype, 5);
  op.residual = nan({N, c.C}, dtype);
  op.normed = nan({N, c.C}, dtype);
  if (!c.rms) op.mean = nan({N});
  op.rstd = nan({N});
  return op;
}

AddNormBackward backward_of(const Case& c, at::ScalarType dtype) {
  const AddNorm forward = forward_of(c, dtype);
  add_norm_forward(forward);
  const int64_t N = c.samples * c.length;
  AddNormBackward op;
  op.d_normed = random({N, c.C}, dtype, 6);
  if (c.sum) op.d_sum = random({N, c.C}, dtype, 7);
  op.residual = forward.residual, op.mean = forward.mean, op.rstd = forward.rstd, op.weight = forward.weight;
  op.dropout = forward.dropout;
  op.d_residual = nan({N, c.C}, dtype);
  if (c.p > 0) op.d_branch = nan({N, c.C}, dtype);
  op.d_weight = {nan({c.C}), false};
  if (!c.rms) op.d_norm_bias = {nan({c.C}), false};
  op.d_bias = {nan({c.C}), false};
  return op;
}

template <class F>
void for_all_cases(F&& f) {
  for (at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << " x " << c.C
                                        << " sum " << c.sum << " bias " << c.bias << " p " << c.p
                                        << (c.rms ? " rms" : ""));
      f(c, dtype);
    }
}

TEST(AddNorm, ForwardIsTheDefinition) {
  for_all_cases([](const Case& c, at::ScalarType dtype) {
    const AddNorm op = forward_of(c, dtype);
    add_norm_forward(op);
    const Values branch = values(op.branch), weight = values(op.weight);
    const Values norm_bias = c.rms ? Values(weight.size()) : values(op.norm_bias);
    const Values m = multipliers(c), sum = c.sum ? values(op.sum) : Values(branch.size());
    const Values bias = c.bias ? values(op.bias) : Values(static_cast<size_t>(c.C));
    const auto C = static_cast<size_t>(c.C);
    Values residual(branch.size());
    for (size_t i = 0; i < branch.size(); ++i) residual[i] = sum[i] + m[i] * (branch[i] + bias[i % C]);
    expect_close(op.residual, residual, tolerance(dtype));

    const Values r = values(op.residual);  // the norm is of what was rounded
    Values normed(r.size()), means, rstds;
    for (size_t row = 0; row < r.size() / C; ++row) {
      double mean = 0, variance = 0;
      for (size_t i = 0; !c.rms && i < C; ++i) mean += r[row * C + i] / static_cast<double>(C);
      for (size_t i = 0; i < C; ++i) variance += std::pow(r[row * C + i] - mean, 2) / static_cast<double>(C);
      means.push_back(mean);
      rstds.push_back(1 / std::sqrt(variance + op.epsilon));
      for (size_t i = 0; i < C; ++i)
        normed[row * C + i] = (r[row * C + i] - mean) * rstds.back() * weight[i] + norm_bias[i];
    }
    if (!c.rms) expect_close(op.mean, means, 1e-5);
    expect_close(op.rstd, rstds, 1e-5);
    expect_close(op.normed, normed, tolerance(dtype));
  });
}

TEST(AddNorm, MaskIsTheScalarDefinitionBitForBit) {
  for (const Case& c : kCases) {
    if (c.p == 0) continue;
    AddNorm op = forward_of({c.samples, c.length, c.C, false, false, c.p}, at::kFloat);
    op.branch.fill_(1);
    add_norm_forward(op);
    EXPECT_EQ(values(op.residual), multipliers(c)) << c.C;
  }
}

TEST(AddNorm, MaskKeepsTheMeanAndDropsTheRightShare) {
  const Case c{4, 256, 384, false, false, 0.1F};
  AddNorm op = forward_of(c, at::kFloat);
  op.branch.fill_(1);
  add_norm_forward(op);
  double mean = 0, dropped = 0;
  const Values r = values(op.residual);
  for (double x : r) mean += x / static_cast<double>(r.size()), dropped += x == 0;
  EXPECT_NEAR(mean, 1, 0.003);
  EXPECT_NEAR(dropped / static_cast<double>(r.size()), 0.1, 0.003);
}

TEST(AddNorm, ResidualMayBeSumOrBranch) {
  for_all_cases([](const Case& c, at::ScalarType dtype) {
    const AddNorm op = forward_of(c, dtype);
    add_norm_forward(op);
    for (const bool into_sum : {true, false}) {
      if (into_sum && !c.sum) continue;
      AddNorm in_place = forward_of(c, dtype);
      in_place.residual = into_sum ? in_place.sum : in_place.branch;
      add_norm_forward(in_place);
      EXPECT_TRUE(same_bits(in_place.residual, op.residual) && same_bits(in_place.normed, op.normed));
    }
  });
}

TEST(AddNorm, RecomputeGivesTheSameBits) {
  for_all_cases([](const Case& c, at::ScalarType dtype) {
    const AddNorm op = forward_of(c, dtype);
    add_norm_forward(op);
    const at::Tensor again = nan(op.normed.sizes(), dtype);
    norm_recompute(again, op.residual, op.mean, op.rstd, op.weight, op.norm_bias);
    EXPECT_TRUE(same_bits(again, op.normed));
  });
}

TEST(AddNorm, BackwardIsTheDefinition) {
  for_all_cases([](const Case& c, at::ScalarType dtype) {
    const AddNormBackward op = backward_of(c, dtype);
    add_norm_backward(op);
    const Values dy = values(op.d_normed), r = values(op.residual), rstd = values(op.rstd);
    const Values mean = c.rms ? Values(rstd.size()) : values(op.mean);
    const Values weight = values(op.weight), d_sum = c.sum ? values(op.d_sum) : Values(dy.size()), m = multipliers(c);
    const auto C = static_cast<size_t>(c.C);
    Values d_residual(dy.size()), d_branch(dy.size()), d_weight(C), d_norm_bias(C), d_bias(C);
    for (size_t row = 0; row < dy.size() / C; ++row) {
      double mean_h = 0, mean_hx = 0;
      const auto x_hat = [&](size_t i) { return (r[row * C + i] - mean[row]) * rstd[row]; };
      for (size_t i = 0; i < C; ++i) {
        const double h = dy[row * C + i] * weight[i];
        if (!c.rms) mean_h += h / static_cast<double>(C);
        mean_hx += h * x_hat(i) / static_cast<double>(C);
      }
      for (size_t i = 0; i < C; ++i) {
        const size_t at = row * C + i;
        d_residual[at] = rstd[row] * (dy[at] * weight[i] - mean_h - x_hat(i) * mean_hx) + d_sum[at];
        d_weight[i] += dy[at] * x_hat(i);
        d_norm_bias[i] += dy[at];
      }
    }
    expect_close(op.d_residual, d_residual, tolerance(dtype));
    const Values rounded = values(op.d_residual);  // what a pipeline cut would send
    for (size_t i = 0; i < rounded.size(); ++i) d_branch[i] = m[i] * rounded[i];
    if (c.p > 0) expect_close(op.d_branch, d_branch, tolerance(dtype));
    const Values summed = values(c.p > 0 ? op.d_branch : op.d_residual);
    for (size_t i = 0; i < summed.size(); ++i) d_bias[i % C] += summed[i];
    expect_close(op.d_weight.gradient, d_weight, 1e-5);
    if (!c.rms) expect_close(op.d_norm_bias.gradient, d_norm_bias, 1e-5);
    expect_close(op.d_bias.gradient, d_bias, 1e-5);
  });
}

TEST(AddNorm, BackwardAddsToTargetsAndSkipsFrozenOnes) {
  const Case c{2, 9, 33, true, true, 0.2F};
  const AddNormBackward once = backward_of(c, at::kFloat);
  add_norm_backward(once);
  AddNormBackward twice = backward_of(c, at::kFloat);
  add_norm_backward(twice);
  twice.d_weight.accumulate = twice.d_norm_bias.accumulate = true;
  twice.d_bias = {};
  add_norm_backward(twice);
  for (const auto member : {&AddNormBackward::d_weight, &AddNormBackward::d_norm_bias}) {
    Values doubled = values((once.*member).gradient);
    for (double& x : doubled) x *= 2;
    expect_close((twice.*member).gradient, doubled, 1e-6);
  }
}

TEST(AddNorm, AnyVectorsMayBeFrozen) {
  for (const bool rms : {false, true})
    for (at::ScalarType dtype : kDTypes) {
      const Case c{2, 9, 33, true, true, 0.2F, rms};
      const AddNormBackward all = backward_of(c, dtype);
      add_norm_backward(all);
      for (int wanted = 0; wanted < 8; ++wanted) {
        AddNormBackward some = backward_of(c, dtype);
        int bit = 1;
        for (const auto member :
             {&AddNormBackward::d_weight, &AddNormBackward::d_norm_bias, &AddNormBackward::d_bias}) {
          if ((wanted & bit) == 0) some.*member = {};
          bit *= 2;
        }
        add_norm_backward(some);
        EXPECT_TRUE(same_bits(some.d_residual, all.d_residual) && same_bits(some.d_branch, all.d_branch));
        for (const auto member : {&AddNormBackward::d_weight, &AddNormBackward::d_norm_bias, &AddNormBackward::d_bias})
          EXPECT_TRUE(!(some.*member).gradient.defined() || same_bits((some.*member).gradient, (all.*member).gradient));
      }
    }
}

// A part of the rows of a forward pass, in the memory of `whole`.
AddNorm part_of(const AddNorm& whole, const Part& part) {
  AddNorm op = whole;
  op.sum = part.of(whole.sum), op.branch = part.of(whole.branch);
  op.residual = part.of(whole.residual), op.normed = part.of(whole.normed);
  op.mean = part.of(whole.mean), op.rstd = part.of(whole.rstd);
  op.dropout = dropout_of_part(whole.dropout, part.begin, whole.branch.size(0));
  return op;
}
AddNormBackward part_of(const AddNormBackward& whole, const Part& part) {
  AddNormBackward op = whole;
  op.d_normed = part.of(whole.d_normed), op.d_sum = part.of(whole.d_sum), op.residual = part.of(whole.residual);
  op.mean = part.of(whole.mean), op.rstd = part.of(whole.rstd);
  op.d_residual = part.of(whole.d_residual), op.d_branch = part.of(whole.d_branch);
  op.dropout = dropout_of_part(whole.dropout, part.begin, whole.residual.size(0));
  return op;
}

// Whatever the rows are divided into, also within a sample; the column sums of the parts add up.
TEST(AddNorm, PartsAreAsInTheWhole) {
  std::mt19937_64 random_numbers(1);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 24; ++round) {
      const Case c{random_between(1, 4, random_numbers),
                   random_between(1, 41, random_numbers),
                   random_between(1, 70, random_numbers),
                   round % 2 == 0,
                   round % 3 == 0,
                   round % 4 == 0 ? 0 : 0.3F,
                   round % 5 == 0};
      const int64_t rows = c.samples * c.length;
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << " x "
                                        << c.C);
      const std::vector<Part> parts = random_parts(rows, random_between(1, 5, random_numbers), random_numbers);
      const AddNorm forward = forward_of(c, dtype), by_part = forward_of(c, dtype);
      add_norm_forward(forward);
      for (const Part& part : parts) add_norm_forward(part_of(by_part, part));
      EXPECT_TRUE(same_bits(by_part.residual, forward.residual) && same_bits(by_part.normed, forward.normed));
      EXPECT_TRUE(same_bits(by_part.rstd, forward.rstd));

      const AddNormBackward backward = backward_of(c, dtype);
      AddNormBackward backward_by_part = backward_of(c, dtype);
      add_norm_backward(backward);
      for (const Part& part : parts) {
        add_norm_backward(part_of(backward_by_part, part));
        for (const auto member : {&AddNormBackward::d_weight, &AddNormBackward::d_norm_bias, &AddNormBackward::d_bias})
          (backward_by_part.*member).accumulate = true;
      }
      EXPECT_TRUE(same_bits(backward_by_part.d_residual, backward.d_residual));
      EXPECT_TRUE(c.p == 0 || same_bits(backward_by_part.d_branch, backward.d_branch));
      expect_close(backward_by_part.d_weight.gradient, values(backward.d_weight.gradient), 1e-5);
      expect_close(backward_by_part.d_bias.gradient, values(backward.d_bias.gradient), 1e-5);
      if (!c.rms) expect_close(backward_by_part.d_norm_bias.gradient, values(backward.d_norm_bias.gradient), 1e-5);
    }
}

// The loss sum(d_normed * norm(branch)) in fp64, moved by one element of the branch.
TEST(AddNorm, RmsBackwardIsTheSlope) {
  const Case c{1, 3, 13, false, false, 0, true};
  const AddNormBackward op = backward_of(c, at::kFloat);
  add_norm_backward(op);
  const Values dy = values(op.d_normed), x = values(op.residual), weight = values(op.weight);
  const auto loss = [&](const Values& r) {
    double sum = 0;
    for (size_t row = 0; row < 3; ++row) {
      double squares = 0;
      for (size_t i = 0; i < 13; ++i) squares += r[row * 13 + i] * r[row * 13 + i] / 13;
      for (size_t i = 0; i < 13; ++i) sum += dy[row * 13 + i] * weight[i] * r[row * 13 + i] / std::sqrt(squares + 1e-5);
    }
    return sum;
  };
  Values slope(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    Values more = x, less = x;
    more[i] += 1e-5, less[i] -= 1e-5;
    slope[i] = (loss(more) - loss(less)) / 2e-5;
  }
  expect_close(op.d_residual, slope, 1e-5);
}

TEST(AddNorm, BackwardMayWriteOverItsInputs) {
  for_all_cases([](const Case& c, at::ScalarType dtype) {
    const AddNormBackward op = backward_of(c, dtype);
    add_norm_backward(op);
    for (const bool into_sum : {true, false}) {
      if (into_sum && !c.sum) continue;
      AddNormBackward in_place = backward_of(c, dtype);
      in_place.d_residual = into_sum ? in_place.d_sum : in_place.d_normed;
      add_norm_backward(in_place);
      EXPECT_TRUE(same_bits(in_place.d_residual, op.d_residual) &&
                  same_bits(in_place.d_weight.gradient, op.d_weight.gradient));
    }
  });
}

void expect_the_same_with_two_threads(const Case& c) {
  for (at::ScalarType dtype : kDTypes) {
    const auto run = [&] {
      AddNormBackward op = backward_of(c, dtype);
      add_norm_backward(op);
      return op;
    };
    const AddNormBackward one = with_threads(1, run), two = with_threads(2, run);
    EXPECT_TRUE(same_bits(one.residual, two.residual) && same_bits(one.d_residual, two.d_residual));
    EXPECT_TRUE(same_bits(one.d_weight.gradient, two.d_weight.gradient));
    EXPECT_TRUE(c.rms || same_bits(one.d_norm_bias.gradient, two.d_norm_bias.gradient));
    EXPECT_TRUE(same_bits(one.d_bias.gradient, two.d_bias.gradient));
  }
}

TEST(AddNorm, ThreadsDoNotChangeABit) {
  expect_the_same_with_two_threads({4, 301, 65, true, true, 0.1F});
  expect_the_same_with_two_threads({4, 301, 65, true, true, 0, true});
}

TEST(AddNorm, NanComesThrough) {
  for (at::ScalarType dtype : kDTypes) {
    AddNorm op = forward_of({1, 2, 9}, dtype);
    op.branch.fill_(std::numeric_limits<double>::quiet_NaN());
    add_norm_forward(op);
    for (double x : values(op.normed)) EXPECT_TRUE(std::isnan(x));
  }
}

TEST(AddNorm, WrongOperandsAreNamed) {
  AddNorm op = forward_of({2, 3, 8}, at::kFloat);
  op.weight = random({9}, at::kFloat, 1);
  EXPECT_THAT([&] { add_norm_forward(op); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("weight: shape [9]")));
  op = forward_of({2, 3, 8, true, true, 0.1F}, at::kFloat);
  op.dropout.samples = sample_ids(kSamples);
  EXPECT_THAT([&] { add_norm_forward(op); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("whole samples")));
  op = forward_of({2, 3, 8}, at::kFloat);
  op.mean = at::Tensor();
  EXPECT_THAT([&] { add_norm_forward(op); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("a norm_bias without a mean")));
  op.mean = nan({6});
  op.norm_bias = at::Tensor();
  EXPECT_THAT([&] { add_norm_forward(op); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("norm_bias is missing")));
  AddNormBackward back = backward_of({2, 3, 8, true, true, 0, true}, at::kFloat);
  back.d_norm_bias = {nan({8}), false};
  EXPECT_THAT([&] { add_norm_backward(back); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("d_norm_bias of an RMS norm")));
}

}  // namespace
}  // namespace partita::internal
