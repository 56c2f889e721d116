#include "partita/ops/matmul.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita {
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
          if (gradient == at::kBFloat16 && dtype == at::kFloat) continue;
          const at::Tensor d_w = accumulate ? random({out, in}, gradient, 5) : nan({out, in}, gradient);
          Values expected_w = accumulate ? values(d_w) : Values(static_cast<size_t>(out * in));
          multiply(expected_w, d_values, 1, out, x_values, in, 1, out, in, N);
          linear_backward_weight(d_w, d_y, x, accumulate);
          expect_close(d_w, expected_w, 2 * tolerance(dtype));  // the product is rounded, and then the sum
        }
    }
}

TEST(Linear, WrongOperandsAreNamed) {
  EXPECT_THAT(
      [] {
        linear_forward(nan({2, 3}), nan({2, 5}), nan({3, 4}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("w: shape [3, 4], expected [3, 5]")));
}

}  // namespace
}  // namespace partita
