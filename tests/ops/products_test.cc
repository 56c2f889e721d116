// Which matmul kernels run on this CPU, and that matmuls computed via fp32 are correct. CTest runs it again with
// PARTITA_MAX_ISA set, to emulate CPUs with fewer instructions.
#include <ATen/Version.h>
#include <gmock/gmock.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <map>

#include "partita/base/error.h"
#include "partita/ops/cpu/few_rows.h"
#include "partita/ops/cpu/isa_limit.h"
#include "partita/ops/cpu/products.h"
#include "partita/ops/cpu/wide_matmul.h"
#include "partita/ops/matmul.h"
#include "partita/ops/precision_note.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;
using testing::HasSubstr;

std::string limit() {
  const char* value = std::getenv("PARTITA_MAX_ISA");
  return value == nullptr ? "" : value;
}

// What the CPU is known to have, by the compiler's own look at it, within the limit.
TEST(Products, AreWhatTheCpuHasWithinTheLimit) {
  const bool avx512 = __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0;
  const bool bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  const std::string set = limit();
  EXPECT_EQ(cpu_matmul_support().onednn_fp32, avx512 && set != "avx2" && set != "baseline");
  EXPECT_EQ(cpu_matmul_support().bf16, bf16 && set != "avx2" && set != "baseline" && set != "avx512");
}

TEST(IsaLimit, IsObeyedByAllThatComputes) {
  const std::map<std::string, std::pair<int64_t, std::string>> sets = {{"baseline", {HWY_AVX2 | HWY_AVX3, "DEFAULT"}},
                                                                       {"avx2", {HWY_AVX3, "AVX2"}}};
  const auto set = sets.find(limit());
  if (set == sets.end()) GTEST_SKIP() << "not limited below what is there";
  EXPECT_EQ(hwy::SupportedTargets() & set->second.first, 0);
  EXPECT_THAT(at::show_config(), HasSubstr("CPU capability usage: " + set->second.second));
}

TEST(IsaLimit, NamesAreKnown) {
  for (const char* name : {"baseline", "avx2", "avx512", "avx512_bf16"}) {
    ASSERT_TRUE(isa_limit(name)) << name;
    EXPECT_EQ(isa_limit(name)->name, name);
  }
  for (const char* name : {"", "AVX2", "avx3", "avx2 "}) EXPECT_FALSE(isa_limit(name)) << name;
}

TEST(PrecisionNote, IsSaidWherePrecisionSavesNoTime) {
  EXPECT_EQ(precision_note(DType::fp32, false), "");
  EXPECT_EQ(precision_note(DType::bf16, true), "");
  EXPECT_THAT(precision_note(DType::bf16, false), HasSubstr("no bf16 instructions"));
  EXPECT_THAT(precision_note(DType::fp16, false), HasSubstr("precision fp16 saves memory but no time"));
  EXPECT_THAT(precision_note(DType::fp16, true), HasSubstr("bf16 is faster"));
}

// a [M, K] b [K, N], times `scale`, plus `before`, in fp64; a and b by their strides.
Values product(const at::Tensor& a, const at::Tensor& b, double scale, const Values& before) {
  const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
  const Values left = values(a), right = values(b.t());
  Values out = before;
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < K; ++k)
        sum += left[static_cast<size_t>(i * K + k)] * right[static_cast<size_t>(j * K + k)];
      out[static_cast<size_t>(i * N + j)] += scale * sum;
    }
  return out;
}

// A matrix of random numbers, by rows or by columns, whose rows (columns) are `gap` elements apart.
at::Tensor matrix(int64_t rows, int64_t columns, at::ScalarType dtype, bool by_columns, int64_t gap, uint64_t seed) {
  if (by_columns) return matrix(columns, rows, dtype, false, gap, seed).t();
  return random({rows, columns + gap}, dtype, seed).narrow(1, 0, columns);
}

// Sizes on both sides of a block's, each dimension in turn.
const int64_t kShapes[][3] = {{1, 1, 1},    {5, 7, 3},    {33, 64, 20}, {1030, 3, 5},
                              {3, 1031, 4}, {2, 3, 2050}, {1, 1, 1025}};

TEST(WideMatmul, IsTheProductRoundedOnce) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const at::ScalarType out : {dtype, at::kFloat})
      for (const auto& [M, N, K] : kShapes)
        for (int way = 0; way < 8; ++way) {
          const bool accumulate = (way & 4) != 0;
          SCOPED_TRACE(testing::Message() << at::toString(dtype) << " to " << at::toString(out) << " " << M << " x "
                                          << N << " x " << K << ", way " << way);
          const at::Tensor a = matrix(M, K, dtype, (way & 1) != 0, 3, 1), b = matrix(K, N, dtype, (way & 2) != 0, 2, 2);
          const at::Tensor wide = random({M, N + 4}, out, 3), y = wide.narrow(1, 2, N);
          const Values rest = values(wide.narrow(1, N + 2, 2));
          const float scale = accumulate ? 0.5F : 1.0F;
          const Values expected =
              product(a, b, scale, accumulate ? values(y) : Values(static_cast<size_t>(M * N), 0.0));
          if (!accumulate) y.fill_(std::nan(""));
          wide_matmul(y, a, b, accumulate, scale);
          // One rounding (2^-8 for bf16, 2^-11 for fp16), or fp32's sums.
          expect_close(y, expected, tolerance(out));
          EXPECT_EQ(values(wide.narrow(1, N + 2, 2)), rest);
        }
}

TEST(FewRows, IsTheProductRoundedOnce) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const int64_t N : {0, 1, 2, 3, 4, 5, 9, 16})
      for (const int64_t in : {1, 31, 64, 130})
        for (const int64_t out : {1, 3, 4, 65})
          for (const bool accumulate : {false, true}) {
            SCOPED_TRACE(testing::Message() << at::toString(dtype) << " " << N << " x " << in << " to " << out);
            const at::Tensor x = random({N, in}, dtype, 1), w = random({out, in}, dtype, 2);
            const at::Tensor wide = random({N, out + 3}, dtype, 3), y = wide.narrow(1, 1, out);
            const Values left = values(wide.narrow(1, 0, 1)), right = values(wide.narrow(1, out + 1, 2));
            const float scale = accumulate ? -2.0F : 1.0F;
            const Values expected =
                product(x, w.t(), scale, accumulate ? values(y) : Values(static_cast<size_t>(N * out), 0.0));
            if (!accumulate) y.fill_(std::nan(""));
            linear_few_rows(y, x, w, accumulate, scale);
            expect_close(y, expected, tolerance(dtype));
            EXPECT_EQ(values(wide.narrow(1, 0, 1)), left);
            EXPECT_EQ(values(wide.narrow(1, out + 1, 2)), right);
          }
}

TEST(FewRows, ThreadsAndOtherRowsDoNotChangeABit) {
  const at::Tensor x = random({9, 300}, at::kBFloat16, 1), w = random({1003, 300}, at::kBFloat16, 2);
  const auto run = [&](const at::Tensor& rows) {
    const at::Tensor y = nan({rows.size(0), 1003}, at::kBFloat16);
    linear_few_rows(y, rows, w, false, 1);
    return y;
  };
  const at::Tensor whole = with_threads(1, [&] { return run(x); });
  EXPECT_TRUE(same_bits(whole, with_threads(3, [&] { return run(x); })));
  for (int64_t r = 0; r < 9; ++r) EXPECT_TRUE(same_bits(whole.narrow(0, r, 1), run(x.narrow(0, r, 1)))) << "row " << r;
}

TEST(FewRows, InfinityAndNanComeThrough) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = random({2, 40}, dtype, 1), w = random({5, 40}, dtype, 2), y = nan({2, 5}, dtype);
    x.narrow(0, 1, 1).narrow(1, 39, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    w.narrow(0, 2, 1).narrow(1, 3, 1).fill_(std::numeric_limits<double>::infinity());
    linear_few_rows(y, x, w, false, 1);
    const Values found = values(y);
    for (size_t o = 0; o < 5; ++o) {
      EXPECT_EQ(std::isinf(found[o]), o == 2) << o;
      EXPECT_TRUE(std::isnan(found[5 + o])) << o;
    }
  }
}

// On every set of instructions: half-precision layers are what fp32 makes of the same numbers, within one rounding.
TEST(Products, HalfPrecisionIsFp32WithinItsRounding) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const int64_t N : {1, 7, 300}) {
      const at::Tensor x = random({N, 96}, dtype, 1), w = random({80, 96}, dtype, 2), d_y = random({N, 80}, dtype, 3);
      const at::Tensor y = nan({N, 80}, dtype), d_x = nan({N, 96}, dtype), d_w = nan({80, 96});
      const at::Tensor y32 = nan({N, 80}), d_x32 = nan({N, 96}), d_w32 = nan({80, 96});
      linear_forward(y, x, w);
      linear_forward(y32, x.to(at::kFloat), w.to(at::kFloat));
      expect_close(y, values(y32), tolerance(dtype));
      linear_backward_input(d_x, d_y, w);
      linear_backward_input(d_x32, d_y.to(at::kFloat), w.to(at::kFloat));
      expect_close(d_x, values(d_x32), tolerance(dtype));
      linear_backward_weight(d_w, d_y, x, false);
      linear_backward_weight(d_w32, d_y.to(at::kFloat), x.to(at::kFloat), false);
      // Without instructions for the dtype nothing is rounded before the sum.
      expect_close(d_w, values(d_w32), dtype == at::kBFloat16 && cpu_matmul_support().bf16 ? tolerance(dtype) : 1e-5);
    }
}

}  // namespace
}  // namespace partita::internal
