#include "partita/ops/matmul.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

const int64_t kShapes[][3] = {{1, 1, 1}, {3, 5, 7}, {64, 32, 48}, {33, 130, 65}, {0, 4, 8}, {2, 384, 100}};  // N in out

// c [M, N] += a [M, K] b [K, N], any strides.
void multiply(Values& c, const Values& a, int64_t a_row, int64_t a_column, const Values& b, int64_t b_row,
              int64_t b_column, int64_t M, int64_t N, int64_t K) {
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j)
      for (int64_t k = 0; k < K; ++k)
        c[static_cast<size_t>(i * N + j)] +=
            a[static_cast<size_t>(i * a_row + k * a_column)] * b[static_cast<size_t>(k * b_row + j * b_column)];
}

TEST(Linear, ForwardAndBothBackwards) {
  for (at::ScalarType dtype : kDTypes)
    for (const auto& [N, in, out] : kShapes) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << N << " x " << in << " to " << out);
      const at::Tensor x = random({N, in}, dtype, 1), w = random({out, in}, dtype, 2), bias = random({out}, dtype, 3);
      const at::Tensor d_y = random({N, out}, dtype, 4), y = nan({N, out}, dtype), d_x = nan({N, in}, dtype);
      const Values x_values = values(x), w_values = values(w), d_values = values(d_y), b = values(bias);
      Values expected(static_cast<size_t>(N * out)), expected_d(static_cast<size_t>(N * in));
      multiply(expected, x_values, in, 1, w_values, 1, in, N, out, in);
      multiply(expected_d, d_values, out, 1, w_values, in, 1, N, in, out);
      linear_forward(y, x, w);
      expect_close(y, expected, tolerance(dtype));
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += b[i % static_cast<size_t>(out)];
      linear_forward(y.fill_(std::nan("")), x, w, bias);
      expect_close(y, expected, tolerance(dtype));
      linear_backward_input(d_x, d_y, w);
      expect_close(d_x, expected_d, tolerance(dtype));
      for (at::ScalarType gradient : kDTypes)
        for (const bool accumulate : {false, true}) {
          if (gradient != at::kFloat && gradient != dtype) continue;
          const at::Tensor d_w = accumulate ? random({out, in}, gradient, 5) : nan({out, in}, gradient);
          Values expected_w = accumulate ? values(d_w) : Values(static_cast<size_t>(out * in));
          multiply(expected_w, d_values, 1, out, x_values, in, 1, out, in, N);
          linear_backward_weight(d_w, d_y, x, accumulate);
          expect_close(d_w, expected_w, 2 * tolerance(dtype));  // the product is rounded, and then the sum
        }
    }
}

// Columns `skip` .. skip + columns - 1 of a matrix that is 5 columns wider.
at::Tensor columns_of(const at::Tensor& wide, int64_t skip) { return wide.narrow(1, skip, wide.size(1) - 5); }

Values scaled(Values x, double factor) {
  for (double& v : x) v *= factor;
  return x;
}

TEST(Linear, ScalesAndAccumulates) {
  for (at::ScalarType dtype : kDTypes)
    for (const auto& [N, in, out] : kShapes)
      for (const float scale : {1.0F, 0.375F, -2.0F}) {
        SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << N << " x " << in << " to " << out);
        const at::Tensor x = random({N, in}, dtype, 1), w = random({out, in}, dtype, 2),
                         d_y = random({N, out}, dtype, 3);
        const Values scaled_x = scaled(values(x), scale), scaled_d = scaled(values(d_y), scale);
        const at::Tensor y = random({N, out}, dtype, 4);
        Values expected = values(y);
        multiply(expected, scaled_x, in, 1, values(w), 1, in, N, out, in);
        linear_add(y, x, w, scale);
        expect_close(y, expected, tolerance(dtype));
        for (const bool accumulate : {false, true}) {
          const at::Tensor d_x = accumulate ? random({N, in}, dtype, 5) : nan({N, in}, dtype);
          Values expected_x = accumulate ? values(d_x) : Values(static_cast<size_t>(N * in));
          multiply(expected_x, scaled_d, out, 1, values(w), in, 1, N, in, out);
          linear_backward_input(d_x, d_y, w, scale, accumulate);
          expect_close(d_x, expected_x, tolerance(dtype));
          for (at::ScalarType gradient : {at::kFloat, dtype}) {
            const at::Tensor d_w = accumulate ? random({out, in}, gradient, 6) : nan({out, in}, gradient);
            Values expected_w = accumulate ? values(d_w) : Values(static_cast<size_t>(out * in));
            multiply(expected_w, scaled_d, 1, out, values(x), in, 1, out, in, N);
            linear_backward_weight(d_w, d_y, x, accumulate, scale);
            expect_close(d_w, expected_w, 2 * tolerance(dtype));
          }
        }
      }
}

// The sum with an fp32 gradient is made in fp32: small products beside a large gradient are not lost.
TEST(Linear, HalfPrecisionGradientsAddInFp32) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor d_w = at::full({3, 4}, 1024.0, at::TensorOptions(at::kFloat));
    const at::Tensor d_y = at::full({2, 3}, 0.125, at::TensorOptions(dtype)), x = at::full({2, 4}, 0.25, d_y.options());
    linear_backward_weight(d_w, d_y, x, true, 0.5F);
    EXPECT_EQ(values(d_w), Values(12, 1024.03125));
  }
}

TEST(Linear, Fp16ProductsAreSummedInFp32AndRoundedOnce) {
  // 60000 + 60000 - 60000 - 59008, and 4097 ones: fp16 sums would overflow, or stop at 2048.
  const at::Tensor x = at::full({1, 4}, 60000.0, at::TensorOptions(at::kHalf)), w = at::full({1, 4}, 1.0, x.options());
  w.narrow(1, 2, 2).fill_(-1);
  x.narrow(1, 3, 1).fill_(59008);
  const at::Tensor y = nan({1, 1}, at::kHalf);
  linear_forward(y, x, w);
  EXPECT_EQ(values(y), Values{992});
  const at::Tensor ones = at::full({1, 4097}, 1.0, x.options());
  linear_forward(y, ones, ones);
  EXPECT_EQ(values(y), Values{4096});  // 4097 has no fp16
  linear_forward(y, at::full({1, 2}, 60000.0, x.options()), at::full({1, 2}, 1.0, x.options()));
  EXPECT_EQ(values(y), Values{std::numeric_limits<double>::infinity()});
}

TEST(Linear, OutputsMayBeColumnsOfAWiderMatrix) {
  for (at::ScalarType dtype : kDTypes)
    for (const auto& [N, in, out] : kShapes)
      for (const int64_t skip : {0, 2}) {
        SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << N << " x " << in << " to " << out);
        const at::Tensor x = random({N, in}, dtype, 1), w = random({out, in}, dtype, 2), bias = random({out}, dtype, 3);
        const at::Tensor wide = random({N, out + 5}, dtype, 4), before = wide.clone(), dense = nan({N, out}, dtype);
        const auto rest_is_untouched = [&] {
          EXPECT_EQ(values(wide.narrow(1, 0, skip)), values(before.narrow(1, 0, skip)));
          EXPECT_EQ(values(wide.narrow(1, skip + out, 5 - skip)), values(before.narrow(1, skip + out, 5 - skip)));
        };
        const at::Tensor y = columns_of(wide, skip);
        linear_forward(y, x, w);
        linear_forward(dense, x, w);
        expect_close(y, values(dense), tolerance(dtype));
        linear_forward(y, x, w, bias);
        linear_forward(dense, x, w, bias);
        expect_close(y, values(dense), tolerance(dtype));
        linear_add(y, x, w, 0.5F);
        linear_add(dense, x, w, 0.5F);
        expect_close(y, values(dense), tolerance(dtype));
        rest_is_untouched();

        const at::Tensor d_y = columns_of(before, skip), d_dense = d_y.contiguous();
        const at::Tensor d_x = nan({N, in}, dtype), d_x_dense = nan({N, in}, dtype);
        linear_backward_input(d_x, d_y, w, 0.5F);
        linear_backward_input(d_x_dense, d_dense, w, 0.5F);
        EXPECT_TRUE(same_bits(d_x, d_x_dense));
        const at::Tensor d_w = nan({out, in}), d_w_dense = nan({out, in});
        linear_backward_weight(d_w, d_y, x, false, 0.5F);
        linear_backward_weight(d_w_dense, d_dense, x, false, 0.5F);
        EXPECT_TRUE(same_bits(d_w, d_w_dense));
      }
}

TEST(Linear, WrongOperandsAreNamed) {
  EXPECT_THAT(
      [] {
        linear_forward(nan({2, 3}), nan({2, 5}), nan({3, 4}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("w: shape [3, 4], expected [3, 5]")));
  EXPECT_THAT(
      [] {
        linear_forward(nan({3, 2}).t(), nan({2, 5}), nan({3, 5}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("y has strides [1, 2]")));
  EXPECT_THAT(
      [] {
        linear_add(nan({2, 3}), nan({5, 2}).t(), nan({3, 5}), 1);
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("x is not contiguous")));
  EXPECT_THAT(
      [] {
        linear_backward_weight(nan({3, 5}, at::kHalf), nan({2, 3}), nan({2, 5}), false);
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("d_w: dtype Half, expected Float")));
}

}  // namespace
}  // namespace partita::internal
