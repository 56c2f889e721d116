// fp32 goes to oneDNN as well, by the function that ATen keeps for half precision: on AVX-512 CPUs of AMD it is 5-12%
// above the MKL in libtorch, on every shape of a transformer.
//
// fp16 is widened to fp32, multiplied, and rounded once: few CPUs have products of fp16, and the others' emulation is
// slower than this and rounds more often. fp16 is for GPUs; here it has to be right.
#include "partita/ops/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/flat.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/matmul.h"
#endif
#include "partita/ops/device.h"

namespace at::native {
// result = alpha * a b + beta * result. Exported by libtorch_cpu; its header is not installed.
TORCH_API void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace partita {
namespace {

template <class T, class Purpose>
at::Tensor scratch_matrix(int64_t rows, int64_t columns) {
  return at::from_blob(scratch<T, Purpose>(rows * columns), {rows, columns},
                       at::TensorOptions(c10::CppTypeToScalarType<T>::value));
}

// Matrices in fp32, or dense, that oneDNN needs and the caller does not have.
struct WideLeft;
struct WideRight;
struct WideProduct;
struct DenseRows;
struct WeightGradient;

// The matrix in fp32; a transposed view stays one.
template <class Purpose>
at::Tensor widened(const at::Tensor& half) {
  if (!half.is_contiguous()) return scratch_matrix<float, Purpose>(half.size(1), half.size(0)).copy_(half.t()).t();
  return scratch_matrix<float, Purpose>(half.size(0), half.size(1)).copy_(half);
}

// Rows that lie apart, side by side: oneDNN takes dense operands from ATen.
at::Tensor dense(const at::Tensor& rows) {
  if (rows.is_contiguous()) return rows;
  const auto copy = [&]<class T>(T) { return scratch_matrix<T, DenseRows>(rows.size(0), rows.size(1)).copy_(rows); };
  switch (rows.scalar_type()) {
    case at::kBFloat16:
      return copy(at::BFloat16{});
    case at::kHalf:
      return copy(at::Half{});
    default:
      return copy(float{});
  }
}

// y (+)= scale * a b in fp32.
void multiply_fp32(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale) {
  at::native::mkldnn_matmul(a, b, y, accumulate ? 1.0F : 0.0F, scale);
}

// y (fp16 or fp32) (+)= scale * a b, of fp16.
void multiply_fp16(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale) {
  const at::Tensor wide_a = widened<WideLeft>(a), wide_b = widened<WideRight>(b);
  if (y.scalar_type() == at::kFloat) return multiply_fp32(y, wide_a, wide_b, accumulate, scale);
  const at::Tensor product = scratch_matrix<float, WideProduct>(y.size(0), y.size(1));
  if (accumulate) product.copy_(y);
  multiply_fp32(product, wide_a, wide_b, accumulate, scale);
  y.copy_(product);
}

// y (+)= scale * a b; a and b are dense, or transposed views of dense matrices. y has their dtype, or is fp32 where
// they are fp16.
void multiply(at::Tensor y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale) {
  if (y.numel() == 0) return;
  if (a.size(1) == 0) {
    if (!accumulate) y.zero_();
  } else if (a.scalar_type() == at::kHalf) {
    multiply_fp16(y, a, b, accumulate, scale);
  } else if (a.scalar_type() == at::kFloat) {
    multiply_fp32(y, a, b, accumulate, scale);
  } else if (accumulate || scale != 1) {
    at::addmm_out(y, y, a, b, accumulate ? 1 : 0, scale);
  } else {
    at::mm_out(y, a, b);
  }
}

}  // namespace

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias) {
  PARTITA_DISPATCH(x, linear_forward(y, x, w, bias));
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), in = x.size(1), out = w.size(0);
  check_tensor(x, "x", {N, in}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_columns(y, "y", {N, out}, dtype);
  check_optional(bias, "bias", {out}, dtype);
  if (bias.defined()) y.copy_(bias.expand({N, out}));
  multiply(y, x, w.t(), bias.defined(), 1);
}

void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale) {
  PARTITA_DISPATCH(x, linear_add(y, x, w, scale));
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), in = x.size(1), out = w.size(0);
  check_tensor(x, "x", {N, in}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_columns(y, "y", {N, out}, dtype);
  multiply(y, x, w.t(), true, scale);
}

void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale, bool accumulate) {
  PARTITA_DISPATCH(d_y, linear_backward_input(d_x, d_y, w, scale, accumulate));
  const at::ScalarType dtype = check_activation(d_y, "d_y");
  const int64_t N = d_y.size(0), in = w.size(1), out = w.size(0);
  check_columns(d_y, "d_y", {N, out}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_tensor(d_x, "d_x", {N, in}, dtype);
  multiply(d_x, dense(d_y), w, accumulate, scale);
}

void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale) {
  PARTITA_DISPATCH(x, linear_backward_weight(d_w, d_y, x, accumulate, scale));
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), in = x.size(1), out = d_y.size(1);
  check_tensor(x, "x", {N, in}, dtype);
  check_columns(d_y, "d_y", {N, out}, dtype);
  check_tensor(d_w, "d_w", {out, in}, d_w.scalar_type() == dtype ? dtype : at::kFloat);
  const at::Tensor left = dense(d_y).t();
  if (dtype != at::kBFloat16 || d_w.scalar_type() == dtype) return multiply(d_w, left, x, accumulate, scale);
  // No product of bf16 that oneDNN writes as fp32 can be reached through ATen: one rounding, then the sum in fp32.
  const at::Tensor product = scratch_matrix<at::BFloat16, WeightGradient>(out, in);
  multiply(product, left, x, false, scale);
  add_into(d_w.view({-1}), product.view({-1}), accumulate);
}

}  // namespace partita
