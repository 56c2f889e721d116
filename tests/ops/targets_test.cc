// Kernels compiled for lower instruction sets, which this machine would never select, give the same results.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "partita/ops/activation.h"
#include "partita/ops/adamw.h"
#include "partita/ops/attention.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/dropout.h"
#include "partita/ops/embedding.h"
#include "partita/ops/flat.h"
#include "partita/ops/lamb.h"
#include "partita/ops/norm.h"
#include "partita/ops/rope.h"
#include "partita/ops/sgd.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

const StepScalars kNow{.seed = 5, .step = 6, .update = 4, .learning_rate = 0.01F};
const std::vector<int64_t> kSamples = {3, (int64_t{1} << 33) + 1};

// Master weights and states in dtype (fp32 or bf16), after a step of each optimizer.
std::vector<at::Tensor> updated(at::ScalarType dtype) {
  const int64_t n = 1003;
  const auto positive = [&](uint64_t seed) { return random({n}, dtype, seed).abs(); };
  const at::Tensor gradient = random({n}, at::kFloat, 1), adamw = positive(2), m = positive(3), v = positive(4);
  adamw_step(adamw, m, v, gradient, adamw, {.weight_decay = 0.1}, &kNow, {.parameter = 5, .first = 3});
  const at::Tensor sgd = positive(6), momentum = positive(7), lamb = positive(8);
  sgd_step(sgd, momentum, gradient, sgd, {.weight_decay = 0.1}, &kNow, {.parameter = 6, .first = 3});
  const double ratio = lamb_ratio(lamb_measure(lamb, m, v, gradient, {.weight_decay = 0.1}, &kNow));
  lamb_step(lamb, m, v, gradient, lamb, {.weight_decay = 0.1}, ratio, &kNow, {.parameter = 7, .first = 3});
  return {adamw, sgd, momentum, lamb, m, v};
}

// What a Llama layer does beside attention.
std::vector<at::Tensor> llama_results(at::ScalarType dtype) {
  const int64_t length = 19, C = 36, N = 2 * length;
  const at::Tensor residual = nan({N, C}, dtype), normed = nan({N, C}, dtype), rstd = nan({N});
  const at::Tensor weight = random({C}, dtype, 1), d_residual = nan({N, C}, dtype);
  add_norm_forward({.sum = random({N, C}, dtype, 2),
                    .branch = random({N, C}, dtype, 3),
                    .weight = weight,
                    .residual = residual,
                    .normed = normed,
                    .rstd = rstd});
  const Target d_weight{nan({C}), false};
  add_norm_backward({.d_normed = random({N, C}, dtype, 4),
                     .residual = residual,
                     .rstd = rstd,
                     .weight = weight,
                     .d_residual = d_residual,
                     .d_weight = d_weight});
  const at::Tensor gate_up = random({N, 2 * C}, dtype, 5), activated = nan({N, C}, dtype);
  const at::Tensor d_gate_up = nan({N, 2 * C}, dtype);
  swiglu_forward(activated, gate_up);
  swiglu_backward(d_gate_up, random({N, C}, dtype, 6), gate_up);
  const Heads heads{3, 1, 6};
  const at::Tensor qkv = random({2, length, 30}, dtype, 7), positions = integers({2, length}, length, 8);
  rope_forward(qkv, positions, heads, make_rope_table({.head_width = 6, .positions = length}));
  const at::Tensor dropped = random({N, C}, dtype, 9);
  dropout_add(dropped, random({N, C}, dtype, 10),
              {.p = 0.2F, .site = 7, .now = &kNow, .samples = sample_ids(kSamples)});
  const Target d_table{nan({5, C}), false};
  embedding_backward(d_table, {}, random({N, C}, dtype, 11), integers({2, length}, 5, 12), {});
  return {residual, normed, d_residual, d_weight.gradient, activated, d_gate_up, qkv, dropped, d_table.gradient};
}

// What kernels of each family make of the same input.
std::vector<at::Tensor> results(at::ScalarType dtype) {
  const int64_t length = 19, C = 36, N = 2 * length;
  const Dropout dropout{.p = 0.2F, .site = 7, .now = &kNow, .samples = sample_ids(kSamples)};
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
  cross_entropy(logits, integers({N}, 77, 10), at::zeros({1}, at::kDouble), &kNow, true);
  const at::Tensor part = random({N, 77}, dtype, 11), labels = integers({N}, 90, 12), statistics = nan({1, N, 3});
  softmax_statistics(statistics.select(0, 0), part, labels, 5, 90);
  cross_entropy_split(part, labels, statistics, 5, 90, at::zeros({1}, at::kDouble), &kNow, true);
  const at::Tensor half = nan({N * C}, at::kHalf);
  cast(half, normed.view({-1}));
  std::vector<at::Tensor> all = dtype == at::kHalf ? std::vector<at::Tensor>() : updated(dtype);
  const std::vector<at::Tensor> llama = llama_results(dtype);
  all.insert(all.end(), llama.begin(), llama.end());
  all.insert(all.end(),
             {residual, normed, d_residual, d_weight.gradient, gelu, out, d_qkv, logits, statistics, part, half});
  return all;
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
}  // namespace partita::internal
