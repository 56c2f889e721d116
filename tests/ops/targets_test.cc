// The kernels compiled for lesser instruction sets, which this machine would never choose, give the same results.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "partita/ops/activation.h"
#include "partita/ops/attention.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/flat.h"
#include "partita/ops/norm.h"
#include "tests/ops/reference.h"

namespace partita {
namespace {

using namespace reference;

const StepScalars kNow{.seed = 5, .step = 6};
const std::vector<int64_t> kSamples = {3, (int64_t{1} << 33) + 1};

// What kernels of each family make of the same input.
std::vector<at::Tensor> results(at::ScalarType dtype) {
  const int64_t length = 19, C = 36, N = 2 * length;
  const Dropout dropout{.p = 0.2F, .site = 7, .now = &kNow, .samples = kSamples};
  const at::Tensor residual = nan({N, C}, dtype), normed = nan({N, C}, dtype), mean = nan({N}), rstd = nan({N});
  const at::Tensor weight = random({C}, dtype, 1), bias = random({C}, dtype, 2), d_residual = nan({N, C}, dtype);
  add_norm_forward({.sum = random({N, C}, dtype, 3),
                    .branch = random({N, C}, dtype, 4),
                    .dropout = dropout,
                    .weight = weight,
                    .norm_bias = bias,
                    .residual = residual,
                    .normed = normed,
                    .mean = mean,
                    .rstd = rstd});
  const Target d_weight{nan({C}), false};
  add_norm_backward({.d_normed = random({N, C}, dtype, 5),
                     .residual = residual,
                     .mean = mean,
                     .rstd = rstd,
                     .weight = weight,
                     .dropout = dropout,
                     .d_residual = d_residual,
                     .d_branch = nan({N, C}, dtype),
                     .d_weight = d_weight});
  const at::Tensor gelu = nan({N, C}, dtype);
  gelu_recompute(gelu, random({N, C}, dtype, 6));
  const Heads heads{3, 1, 6};
  const at::Tensor qkv = random({2, length, 30}, dtype, 7), out = nan({2, length, 18}, dtype);
  const at::Tensor log_sum = nan({2, 3, length}), d_qkv = nan(qkv.sizes(), dtype);
  attention_forward(out, log_sum, qkv, heads, dropout);
  attention_backward(d_qkv, random(out.sizes(), dtype, 8), out, log_sum, qkv, heads, dropout);
  const at::Tensor logits = random({N, 77}, dtype, 9);
  (void)cross_entropy(logits, integers({N}, 77, 10), 1, true);
  const at::Tensor half = nan({N * C}, at::kHalf);
  cast(half, normed.view({-1}));
  return {residual, normed, d_residual, d_weight.gradient, gelu, out, d_qkv, logits, half};
}

TEST(Targets, AgreeWithTheBest) {
  const int64_t supported = hwy::SupportedTargets();
  for (const at::ScalarType dtype : kDTypes) {
    const std::vector<at::Tensor> best = results(dtype);
    for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_STATIC_TARGET}) {
      if ((supported & target) == 0) continue;
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
      const std::vector<at::Tensor> found = results(dtype);
      for (size_t i = 0; i < best.size(); ++i)
        expect_close(found[i], values(best[i]), dtype == at::kFloat && i + 1 < best.size() ? 1e-5 : 1.0 / 32);
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  }
}

}  // namespace
}  // namespace partita
