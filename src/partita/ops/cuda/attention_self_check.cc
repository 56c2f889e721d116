#include "partita/ops/cuda/attention_self_check.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/ops/cuda/attention.h"
#include "partita/ops/cuda/normal.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
namespace {

// One attention pass with output memory of its own.
struct Pass {
  at::Tensor out, log_sum, d_qkv;
  at::Tensor d_keys;  // of whole sequences, or undefined

  Pass(const at::Tensor& qkv, const at::Tensor& d_out, const at::Tensor& first_keys, const WholeKeys& keys, Heads heads,
       bool deterministic)
      : out(at::empty_like(d_out)),
        log_sum(at::empty({qkv.size(0), heads.heads, qkv.size(1)}, qkv.options().dtype(at::kFloat))),
        d_qkv(at::zeros_like(qkv)) {
    if (keys.keys_values.defined()) d_keys = at::empty_like(keys.keys_values);
    cuda::attention_forward(out, log_sum, qkv, heads, Dropout{}, first_keys, keys);
    cuda::attention_backward(d_qkv, d_out, out, log_sum, qkv, heads, Dropout{}, first_keys, keys, d_keys,
                             deterministic);
  }
};

// Number of blocks that positions are divided into.
constexpr int64_t kBlocks = 16;

// The largest difference of a head in a block of positions: the RMS error relative to the block's RMS value, or to a
// tenth of the overall RMS if that is larger. Single elements are not meaningful: among millions, some are nearly zero
// with an arbitrarily large relative error. Nor is the whole tensor: gradients of the first positions are many times as
// large as those of the last.
double difference(const at::Tensor& found, const at::Tensor& expected, int64_t head_width) {
  const int64_t length = expected.size(1), heads = expected.size(2) / head_width;
  const auto by_head = [&](const at::Tensor& t) { return t.to(at::kFloat).view({-1, length, heads, head_width}); };
  const at::Tensor b = by_head(expected), error = by_head(found).sub(b).square(), size = b.square();
  const at::Tensor least = size.mean().mul(0.01);
  double worst = 0;
  for (int64_t i = 0; i < std::min(kBlocks, length); ++i) {
    const int64_t begin = i * length / std::min(kBlocks, length), end = (i + 1) * length / std::min(kBlocks, length);
    const auto mean = [&](const at::Tensor& t) { return t.narrow(1, begin, end - begin).mean({0, 1, 3}); };
    const double ratio = mean(error).div(at::maximum(mean(size), least)).max().item().toDouble();
    if (!(ratio <= worst)) worst = ratio;  // keeps NaN
  }
  return std::sqrt(worst);
}

// The same numbers in every run: a check that passed once always passes.
at::Tensor numbers(at::IntArrayRef shape, at::ScalarType dtype, std::string_view name, uint64_t seed) {
  at::Tensor all = at::empty(shape, at::TensorOptions(dtype).device(at::kCUDA));
  fill_normal(all.view({-1}), {.key = philox_key(hash_of(seed, name))});
  return all;
}

}  // namespace

AttentionDifference attention_difference(at::ScalarType dtype, int64_t samples, int64_t length, Heads heads,
                                         bool deterministic, uint64_t seed, const ContextSplit& context) {
  const int64_t width = heads.heads * heads.head_width, row = width + 2 * heads.kv_heads * heads.head_width;
  const at::Tensor qkv = numbers({samples, length, row}, dtype, "attention check, qkv", seed),
                   d_out = numbers({samples, length, width}, dtype, "attention check, d_out", seed);
  WholeKeys keys{.keys_values = {}, .split = context};
  if (context.cuts())
    keys.keys_values = numbers({samples, context.ranks * length, row - width}, dtype, "attention check, keys", seed);
  const Pass library(qkv, d_out, {}, keys, heads, deterministic);
  // Passing first keys, all 0 as by default, selects our own kernels. These are slow: one sample only.
  const auto last = [samples](const at::Tensor& all) { return all.narrow(0, samples - 1, 1); };
  if (context.cuts()) keys.keys_values = last(keys.keys_values);
  const Pass own(last(qkv), last(d_out), at::zeros({1, length}, qkv.options().dtype(at::kInt)), keys, heads,
                 deterministic);
  double backward = difference(last(library.d_qkv), own.d_qkv, heads.head_width);
  if (context.cuts()) backward = std::max(backward, difference(last(library.d_keys), own.d_keys, heads.head_width));
  return {.forward = difference(last(library.out), own.out, heads.head_width), .backward = backward};
}

double allowed_attention_difference(at::ScalarType dtype) { return dtype == at::kHalf ? 0.01 : 0.05; }

void attention_self_check(at::ScalarType dtype, int64_t samples, int64_t length, Heads heads, bool deterministic,
                          const ContextSplit& context) {
  const auto [forward, backward] = attention_difference(dtype, samples, length, heads, deterministic, 0, context);
  const double allowed = allowed_attention_difference(dtype);
  if (!(forward <= allowed) || !(backward <= allowed))
    fail(
        "attention by cuDNN {} differs from our own kernels by {:.3g} in the forward and {:.3g} in the backward pass, "
        "relative to its values (at most {} expected), for {} samples of {} tokens in {}, {}/{} heads of {} channels. "
        "Install the cuDNN that came with torch, or train with precision.compute=fp32",
        cudnnGetVersion(), forward, backward, allowed, samples, length, c10::toString(dtype), heads.heads,
        heads.kv_heads, heads.head_width);
  c10::cuda::CUDACachingAllocator::emptyCache();
}

int64_t reserve_workspace(at::ScalarType dtype, int64_t samples, int64_t length, Heads heads, float dropout,
                          bool deterministic, const ContextSplit& context) {
  (void)workspace(
      std::max(kMatmulWorkspace, attention_workspace(dtype, samples, length, heads, dropout, deterministic, context)));
  return workspace_bytes();
}

}  // namespace partita::internal::cuda
