#include "partita/ops/activation.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

const int64_t kShapes[][2] = {{0, 5}, {1, 1}, {3, 7}, {5, 16}, {33, 100}, {130, 33}};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

template <class F>
void for_all_shapes(F&& f) {
  for (at::ScalarType dtype : kDTypes)
    for (const auto& [N, C] : kShapes) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << N << " x " << C);
      f(N, C, dtype);
    }
}

TEST(Gelu, ForwardAddsTheBiasInPlace) {
  for_all_shapes([](int64_t N, int64_t C, at::ScalarType dtype) {
    const at::Tensor x = random({N, C}, dtype, 1, 0, 2), bias = random({C}, dtype, 2), out = nan({N, C}, dtype);
    Values sum = values(x);
    const Values b = values(bias);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i % static_cast<size_t>(C)];
    bias_gelu_forward(out, x, bias);
    expect_close(x, sum, tolerance(dtype));
    Values expected = values(x);
    for (double& v : expected) v = gelu(v);
    expect_close(out, expected, tolerance(dtype));
    const at::Tensor again = nan({N, C}, dtype);
    gelu_recompute(again, x);
    EXPECT_TRUE(same_bits(again, out));
  });
}

TEST(Gelu, ForwardIsAccurateOverTheWholeRange) {
  const int64_t n = 20001;
  at::Tensor x = at::empty({n}, at::TensorOptions(at::kFloat)), out = nan({n});
  for (int64_t i = 0; i < n; ++i) x.mutable_data_ptr<float>()[i] = static_cast<float>(i - n / 2) * 1e-3F;
  gelu_recompute(out, x);
  const Values in = values(x), found = values(out);
  for (size_t i = 0; i < in.size(); ++i)
    ASSERT_NEAR(found[i], gelu(in[i]), 1e-6 * std::abs(gelu(in[i])) + 2e-7 * std::abs(in[i])) << in[i];
}

TEST(Gelu, ExtremesAndNan) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor x = at::empty({6}, at::TensorOptions(at::kFloat)), out = nan({6}, dtype);
    const double in[] = {0, 1e4, -1e4, 1e30, infinity, std::nan("")};
    for (int i = 0; i < 6; ++i) x.mutable_data_ptr<float>()[i] = static_cast<float>(in[i]);
    const at::Tensor narrow = x.to(dtype);
    gelu_recompute(out, narrow);
    const Values found = values(out), exact = values(narrow);
    EXPECT_EQ(found[0], 0);
    EXPECT_EQ(found[1], exact[1]);
    EXPECT_LT(std::abs(found[2]), 1e-25);
    EXPECT_EQ(found[3], exact[3]);
    EXPECT_EQ(found[4], infinity);
    EXPECT_TRUE(std::isnan(found[5]));
  }
}

TEST(Gelu, BackwardIsTheDerivative) {
  for_all_shapes([](int64_t N, int64_t C, at::ScalarType dtype) {
    const at::Tensor x = random({N, C}, dtype, 1, 0, 2), d_out = random({N, C}, dtype, 2), d_x = nan({N, C}, dtype);
    const Target d_bias{nan({C}), false};
    bias_gelu_backward(d_x, d_out, x, d_bias);
    const Values in = values(x), d = values(d_out);
    Values expected(in.size()), column(static_cast<size_t>(C));
    for (size_t i = 0; i < in.size(); ++i) expected[i] = d[i] * gelu_slope(in[i]);
    expect_close(d_x, expected, tolerance(dtype));
    const Values rounded = values(d_x);
    for (size_t i = 0; i < in.size(); ++i) column[i % static_cast<size_t>(C)] += rounded[i];
    expect_close(d_bias.gradient, column, 1e-5);

    const at::Tensor in_place = d_out.clone();
    bias_gelu_backward(in_place, in_place, x, {});
    EXPECT_TRUE(same_bits(in_place, d_x));

    bias_backward(d_x, {d_bias.gradient, true});
    for (double& v : column) v *= 2;
    expect_close(d_bias.gradient, column, 1e-5);
    bias_backward(d_x, {});
  });
}

TEST(Gelu, ThreadsDoNotChangeABit) {
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor x = random({700, 65}, dtype, 1), d_out = random({700, 65}, dtype, 2);
    const auto run = [&] {
      Target d_bias{nan({65}), false};
      bias_gelu_backward(nan({700, 65}, dtype), d_out, x, d_bias);
      return d_bias.gradient;
    };
    EXPECT_TRUE(same_bits(with_threads(1, run), with_threads(2, run)));
  }
}

TEST(Gelu, AFrozenBiasChangesNothingElse) {
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor x = random({70, 33}, dtype, 1), d_out = random({70, 33}, dtype, 2);
    const at::Tensor d_x = nan({70, 33}, dtype), frozen = nan({70, 33}, dtype);
    bias_gelu_backward(d_x, d_out, x, {nan({33}), false});
    bias_gelu_backward(frozen, d_out, x, {});
    EXPECT_TRUE(same_bits(frozen, d_x));
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double swiglu(double gate, double up) { return gate * sigmoid(gate) * up; }

// Row by row: the gate and up of each element, which lie F columns apart.
template <class F>
void for_all_pairs(int64_t N, int64_t columns, F&& f) {
  for (size_t row = 0, i = 0; row < static_cast<size_t>(N); ++row)
    for (size_t c = 0; c < static_cast<size_t>(columns); ++c, ++i) {
      const size_t gate = row * 2 * static_cast<size_t>(columns) + c;
      f(i, gate, gate + static_cast<size_t>(columns));
    }
}

TEST(SwiGlu, ForwardIsTheDefinition) {
  for_all_shapes([](int64_t N, int64_t F, at::ScalarType dtype) {
    const at::Tensor gate_up = random({N, 2 * F}, dtype, 1, 0, 2), out = nan({N, F}, dtype);
    swiglu_forward(out, gate_up);
    const Values in = values(gate_up);
    Values expected(static_cast<size_t>(N * F));
    for_all_pairs(N, F, [&](size_t i, size_t gate, size_t up) { expected[i] = swiglu(in[gate], in[up]); });
    expect_close(out, expected, tolerance(dtype));
  });
}

TEST(SwiGlu, BackwardIsTheSlope) {
  for_all_shapes([](int64_t N, int64_t F, at::ScalarType dtype) {
    const at::Tensor gate_up = random({N, 2 * F}, dtype, 1, 0, 2), d_out = random({N, F}, dtype, 2);
    const at::Tensor d_gate_up = nan({N, 2 * F}, dtype);
    swiglu_backward(d_gate_up, d_out, gate_up);
    const Values in = values(gate_up), d = values(d_out);
    Values expected(in.size());
    const double step = 1e-5;  // central differences in fp64
    for_all_pairs(N, F, [&](size_t i, size_t g, size_t u) {
      expected[g] = d[i] * (swiglu(in[g] + step, in[u]) - swiglu(in[g] - step, in[u])) / (2 * step);
      expected[u] = d[i] * (swiglu(in[g], in[u] + step) - swiglu(in[g], in[u] - step)) / (2 * step);
    });
    expect_close(d_gate_up, expected, tolerance(dtype));

    swiglu_backward(gate_up, d_out, gate_up);
    EXPECT_TRUE(same_bits(gate_up, d_gate_up));
  });
}

TEST(SwiGlu, IsAccurateOverTheWholeRange) {
  const int64_t n = 20001;
  const at::Tensor gate_up = at::full({1, 2 * n}, 1.0, at::TensorOptions(at::kFloat)), out = nan({1, n});
  for (int64_t i = 0; i < n; ++i) gate_up.mutable_data_ptr<float>()[i] = static_cast<float>(i - n / 2) * 1e-2F;
  swiglu_forward(out, gate_up);
  const Values in = values(gate_up), found = values(out);
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], swiglu(in[i], 1), 1e-6 * std::abs(swiglu(in[i], 1)) + 1e-35) << in[i];
}

TEST(SwiGlu, ExtremesAndNan) {
  for (at::ScalarType dtype : kDTypes) {
    const double large = dtype == at::kHalf ? 6e4 : 1e30;
    const double in[] = {0, large, -large, std::nan("")};
    const at::Tensor gate_up = at::full({1, 8}, 1.0, at::TensorOptions(at::kFloat));
    for (int i = 0; i < 4; ++i) gate_up.mutable_data_ptr<float>()[i] = static_cast<float>(in[i]);
    const at::Tensor narrow = gate_up.to(dtype), out = nan({1, 4}, dtype), d_gate_up = nan({1, 8}, dtype);
    swiglu_forward(out, narrow);
    swiglu_backward(d_gate_up, at::full({1, 4}, 1.0, at::TensorOptions(dtype)), narrow);
    const Values found = values(out), d = values(d_gate_up), exact = values(narrow);
    EXPECT_EQ(found[0], 0);
    EXPECT_EQ(found[1], exact[1]);
    EXPECT_EQ(found[2], 0);
    EXPECT_TRUE(std::isnan(found[3]));
    EXPECT_EQ(d[0], 0.5);
    EXPECT_EQ(d[1], 1);
    EXPECT_EQ(d[2], 0);
    EXPECT_TRUE(std::isnan(d[3]) && std::isnan(d[7]));
  }
}

TEST(SwiGlu, ThreadsDoNotChangeABit) {
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor gate_up = random({700, 2 * 65}, dtype, 1), d_out = random({700, 65}, dtype, 2);
    const auto forward = [&] {
      const at::Tensor out = nan({700, 65}, dtype);
      swiglu_forward(out, gate_up);
      return out;
    };
    const auto backward = [&] {
      const at::Tensor d = nan({700, 2 * 65}, dtype);
      swiglu_backward(d, d_out, gate_up);
      return d;
    };
    EXPECT_TRUE(same_bits(with_threads(1, forward), with_threads(2, forward)));
    EXPECT_TRUE(same_bits(with_threads(1, backward), with_threads(2, backward)));
  }
}

TEST(SwiGlu, WrongOperandsAreNamed) {
  EXPECT_THAT(
      [] {
        swiglu_forward(nan({2, 3}), nan({2, 8}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("out: shape [2, 3], expected [2, 4]")));
  EXPECT_THAT(
      [] {
        swiglu_forward(nan({2, 3}), nan({2, 7}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("gate_up: shape [2, 7], expected [2, 6]")));
  EXPECT_THAT(
      [] {
        swiglu_backward(nan({2, 6}), nan({2, 3}, at::kHalf), nan({2, 6}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("d_out: dtype Half, expected Float")));
}

}  // namespace
}  // namespace partita::internal
