#include "partita/ops/cuda/attention_self_check.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cudnn.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/ops/cuda/attention.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::cuda {
namespace {

// Attention of some samples, in memory of its own.
struct Pass {
  at::Tensor out, log_sum, d_qkv;

  Pass(const at::Tensor& qkv, const at::Tensor& d_out, const at::Tensor& first_keys, Heads heads, bool deterministic)
      : out(at::empty_like(d_out)),
        log_sum(at::empty({qkv.size(0), heads.heads, qkv.size(1)}, qkv.options().dtype(at::kFloat))),
        d_qkv(at::empty_like(qkv)) {
    cuda::attention_forward(out, log_sum, qkv, heads, Dropout{}, first_keys);
    cuda::attention_backward(d_qkv, d_out, out, log_sum, qkv, heads, Dropout{}, first_keys, deterministic);
  }
};

// The largest difference of an element, relative to its size and that of all.
double difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor a = found.to(at::kFloat), b = expected.to(at::kFloat);
  const at::Tensor size = b.abs().add(b.square().mean().sqrt());
  return a.sub(b).abs().div(size).max().item().toDouble();
}

}  // namespace

void attention_self_check(at::ScalarType dtype, int64_t samples, int64_t length, Heads heads, bool deterministic) {
  {
    const auto options = at::TensorOptions(dtype).device(at::kCUDA);
    const int64_t width = heads.heads * heads.head_width, row = width + 2 * heads.kv_heads * heads.head_width;
    const at::Tensor qkv = at::randn({samples, length, row}, options),
                     d_out = at::randn({samples, length, width}, options);
    const Pass library(qkv, d_out, {}, heads, deterministic);
    // Keys are said to begin at 0, as they do anyway: such calls go to our own kernels. They are slow: one sample.
    const auto last = [samples](const at::Tensor& all) { return all.narrow(0, samples - 1, 1); };
    const Pass own(last(qkv), last(d_out), at::zeros({1, length}, options.dtype(at::kInt)), heads, deterministic);

    // Both round the softmax's weights to the dtype, and sums in another order.
    const double allowed = dtype == at::kHalf ? 0.02 : 0.1;
    const double forward = difference(last(library.out), own.out),
                 backward = difference(last(library.d_qkv), own.d_qkv);
    if (!(forward <= allowed) || !(backward <= allowed))
      fail(
          "attention by cuDNN {} differs from our own kernels by {:.3g} forward and {:.3g} backward of a value's size, "
          "for {} samples of {} in {}, {}/{} heads of {}: at most {} expected. Install the cuDNN that came with torch, "
          "or train in fp32",
          cudnnGetVersion(), forward, backward, samples, length, c10::toString(dtype), heads.heads, heads.kv_heads,
          heads.head_width, allowed);
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
}

int64_t reserve_workspace(at::ScalarType dtype, int64_t samples, int64_t length, Heads heads, float dropout,
                          bool deterministic) {
  (void)workspace(
      std::max(kMatmulWorkspace, attention_workspace(dtype, samples, length, heads, dropout, deterministic)));
  return workspace_bytes();
}

}  // namespace partita::cuda
