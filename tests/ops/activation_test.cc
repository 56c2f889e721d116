#include "partita/ops/activation.h"

#include "tests/ops/reference.h"

namespace partita {
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

}  // namespace
}  // namespace partita
