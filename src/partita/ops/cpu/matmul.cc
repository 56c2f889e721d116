// fp32 goes to oneDNN as well, by the function that ATen keeps for half precision: on AVX-512 CPUs of AMD it is 5-12%
// above the MKL in libtorch, on every shape of a transformer.
#include "partita/ops/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/flat.h"

namespace at::native {
// result = alpha * a b + beta * result. Exported by libtorch_cpu; its header is not installed.
TORCH_API void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace partita {
namespace {

struct WeightGradient;

// y (+)= a b; a and b may be transposed views.
void multiply(at::Tensor y, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  if (y.numel() == 0) return;
  if (a.size(1) == 0) {
    if (!accumulate) y.zero_();
  } else if (y.scalar_type() == at::kFloat) {
    at::native::mkldnn_matmul(a, b, y, accumulate ? 1.0F : 0.0F, 1.0F);
  } else if (accumulate) {
    at::addmm_out(y, y, a, b);
  } else {
    at::mm_out(y, a, b);
  }
}

}  // namespace

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias) {
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), in = x.size(1), out = w.size(0);
  check_tensor(x, "x", {N, in}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_tensor(y, "y", {N, out}, dtype);
  check_optional(bias, "bias", {out}, dtype);
  if (bias.defined()) y.copy_(bias.expand({N, out}));
  multiply(y, x, w.t(), bias.defined());
}

void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w) {
  const at::ScalarType dtype = check_activation(d_y, "d_y");
  const int64_t N = d_y.size(0), in = w.size(1), out = w.size(0);
  check_tensor(d_y, "d_y", {N, out}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_tensor(d_x, "d_x", {N, in}, dtype);
  multiply(d_x, d_y, w, false);
}

void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate) {
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), in = x.size(1), out = d_y.size(1);
  check_tensor(x, "x", {N, in}, dtype);
  check_tensor(d_y, "d_y", {N, out}, dtype);
  check_tensor(d_w, "d_w", {out, in}, d_w.scalar_type() == dtype ? dtype : at::kFloat);
  if (d_w.scalar_type() == dtype) return multiply(d_w, d_y.t(), x, accumulate);
  // No product of bf16 that oneDNN writes as fp32 can be reached through ATen: one rounding, then the sum in fp32.
  auto* memory = scratch<at::BFloat16, WeightGradient>(out * in);
  const at::Tensor product = at::from_blob(memory, {out, in}, at::TensorOptions(at::kBFloat16));
  multiply(product, d_y.t(), x, false);
  add_into(d_w.view({-1}), product.view({-1}), accumulate);
}

}  // namespace partita
