// Choice of library. fp32: oneDNN, through the function that ATen reserves for half precision, where supported (on AMD
// CPUs with AVX-512 it is 5-12% faster than libtorch's MKL on every transformer shape), else MKL. bf16: oneDNN if the
// CPU has bf16 instructions. Other half precision is widened to fp32 (wide_matmul.h, few_rows.h): few CPUs multiply
// fp16, and the libraries' emulations are slower and round more often.
#include "partita/ops/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/few_rows.h"
#include "partita/ops/cpu/products.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/wide_matmul.h"
#include "partita/ops/flat.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/matmul.h"
#endif
#include "partita/ops/device.h"

namespace partita::internal {
namespace {

template <class T, class Purpose>
at::Tensor scratch_matrix(int64_t rows, int64_t columns) {
  return at::from_blob(scratch<T, Purpose>(rows * columns), {rows, columns},
                       at::TensorOptions(c10::CppTypeToScalarType<T>::value));
}

// Tags of scratch matrices that oneDNN needs in addition to the caller's.
struct DenseRows;
struct WeightGradient;

// Whether the libraries multiply this dtype directly.
bool is_native(at::ScalarType dtype) {
  return dtype == at::kFloat || (dtype == at::kBFloat16 && cpu_matmul_support().bf16);
}

// Packs strided rows: ATen passes only dense operands to oneDNN. Operands to be widened are copied anyway.
at::Tensor dense(const at::Tensor& rows) {
  if (rows.is_contiguous() || !is_native(rows.scalar_type())) return rows;
  if (rows.scalar_type() == at::kFloat) return scratch_matrix<float, DenseRows>(rows.size(0), rows.size(1)).copy_(rows);
  return scratch_matrix<at::BFloat16, DenseRows>(rows.size(0), rows.size(1)).copy_(rows);
}

// y (+)= scale * a b; a and b are dense, or transposed views of dense matrices; half precision that is not native may
// have strided rows. y has their dtype, or is fp32 if they are not native.
void multiply(at::Tensor y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale) {
  if (y.numel() == 0) return;
  if (a.size(1) == 0) {
    if (!accumulate) y.zero_();
  } else if (a.scalar_type() == at::kFloat) {
    matmul_fp32(y, a, b, accumulate, scale);
  } else if (!is_native(a.scalar_type())) {
    wide_matmul(y, a, b, accumulate, scale);
  } else if (accumulate || scale != 1) {
    at::addmm_out(y, y, a, b, accumulate ? 1 : 0, scale);
  } else {
    at::mm_out(y, a, b);
  }
}

// y (+)= scale * x w^T.
void multiply_rows(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool accumulate, float scale) {
  if (x.size(0) <= kFewRows && !is_native(x.scalar_type())) return linear_few_rows(y, x, w, accumulate, scale);
  multiply(y, x, w.t(), accumulate, scale);
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
  multiply_rows(y, x, w, bias.defined(), 1);
}

void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale) {
  PARTITA_DISPATCH(x, linear_add(y, x, w, scale));
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), in = x.size(1), out = w.size(0);
  check_tensor(x, "x", {N, in}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_columns(y, "y", {N, out}, dtype);
  multiply_rows(y, x, w, true, scale);
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
  if (!is_native(dtype) || d_w.scalar_type() == dtype) return multiply(d_w, left, x, accumulate, scale);
  // ATen offers no oneDNN matmul of bf16 with fp32 output: the product is rounded once, then accumulated in fp32.
  const at::Tensor product = scratch_matrix<at::BFloat16, WeightGradient>(out, in);
  multiply(product, left, x, false, scale);
  add_into(d_w.view({-1}), product.view({-1}), accumulate);
}

}  // namespace partita::internal
