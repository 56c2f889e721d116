#include "partita/ops/cuda/matmul.h"

#include <algorithm>

#include "partita/ops/cuda/check.h"
#include "partita/ops/cuda/matmul_plan.h"

namespace partita::internal::cuda {
namespace {

const void* data(const at::Tensor& tensor) { return tensor.const_data_ptr(); }
void* mutable_data(const at::Tensor& tensor) { return tensor.mutable_data_ptr(); }
// The row stride of a single-row matrix is unreliable.
int64_t row_of(const at::Tensor& matrix) { return std::max(matrix.size(1), matrix.stride(0)); }

// With nothing to sum, zeroes out unless accumulating; returns true if no matmul is needed.
bool is_empty(const at::Tensor& out, int64_t k, bool accumulate) {
  if (out.numel() > 0 && k == 0 && !accumulate) out.zero_();
  return out.numel() == 0 || k == 0;
}

// y [N, out] from x [N, in] and w [out, in]. BLAS is column-major: y^T = w x^T.
Product forward_product(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool accumulate,
                        Epilogue epilogue) {
  return {.dtype = x.scalar_type(),
          .out_dtype = y.scalar_type(),
          .m = w.size(0),
          .n = x.size(0),
          .k = w.size(1),
          .transposed_a = true,
          .row_a = w.size(1),
          .row_b = w.size(1),
          .row_out = row_of(y),
          .accumulate = accumulate,
          .epilogue = epilogue};
}

// d_x [N, in] from d_y [N, out] and w [out, in]: d_x^T = w^T d_y^T.
Product input_product(const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& w, bool accumulate,
                      Epilogue epilogue) {
  return {.dtype = d_y.scalar_type(),
          .out_dtype = d_x.scalar_type(),
          .m = w.size(1),
          .n = d_y.size(0),
          .k = w.size(0),
          .row_a = w.size(1),
          .row_b = row_of(d_y),
          .row_out = w.size(1),
          .accumulate = accumulate,
          .epilogue = epilogue};
}

at::ScalarType check_forward(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w) {
  const at::ScalarType dtype = check_activation(x, "x");
  PARTITA_CHECK(x.dim() == 2 && w.defined() && w.dim() == 2, "x and w must be matrices");
  const int64_t N = x.size(0), in = x.size(1), out = w.size(0);
  check_tensor(x, "x", {N, in}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_columns(y, "y", {N, out}, dtype);
  return dtype;
}

}  // namespace

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias) {
  const at::ScalarType dtype = check_forward(y, x, w);
  check_optional(bias, "bias", {w.size(0)}, dtype);
  if (x.size(1) == 0 && bias.defined()) return void(y.copy_(bias.expand_as(y)));
  if (is_empty(y, x.size(1), false)) return;
  run_product(forward_product(y, x, w, false, bias.defined() ? Epilogue::bias : Epilogue::none),
              {.a = data(w), .b = data(x), .out = mutable_data(y), .bias = bias.defined() ? data(bias) : nullptr});
}

void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale) {
  (void)check_forward(y, x, w);
  if (is_empty(y, x.size(1), true)) return;
  run_product(forward_product(y, x, w, true, Epilogue::none),
              {.a = data(w), .b = data(x), .out = mutable_data(y), .scale = scale});
}

void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale, bool accumulate) {
  const at::ScalarType dtype = check_activation(d_y, "d_y");
  PARTITA_CHECK(d_y.dim() == 2 && w.defined() && w.dim() == 2, "d_y and w must be matrices");
  const int64_t N = d_y.size(0), in = w.size(1), out = w.size(0);
  check_columns(d_y, "d_y", {N, out}, dtype);
  check_tensor(w, "w", {out, in}, dtype);
  check_tensor(d_x, "d_x", {N, in}, dtype);
  if (is_empty(d_x, out, accumulate)) return;
  run_product(input_product(d_x, d_y, w, accumulate, Epilogue::none),
              {.a = data(w), .b = data(d_y), .out = mutable_data(d_x), .scale = scale});
}

void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale) {
  const at::ScalarType dtype = check_activation(x, "x");
  PARTITA_CHECK(x.dim() == 2 && d_y.defined() && d_y.dim() == 2, "x and d_y must be matrices");
  const int64_t N = x.size(0), in = x.size(1), out = d_y.size(1);
  check_tensor(x, "x", {N, in}, dtype);
  check_columns(d_y, "d_y", {N, out}, dtype);
  PARTITA_CHECK(d_w.defined(), "d_w is missing");
  check_tensor(d_w, "d_w", {out, in}, d_w.scalar_type() == dtype ? dtype : at::kFloat);
  if (is_empty(d_w, N, accumulate)) return;
  // d_w^T = x^T d_y.
  run_product({.dtype = dtype,
               .out_dtype = d_w.scalar_type(),
               .m = in,
               .n = out,
               .k = N,
               .transposed_b = true,
               .row_a = in,
               .row_b = row_of(d_y),
               .row_out = in,
               .accumulate = accumulate},
              {.a = data(x), .b = data(d_y), .out = mutable_data(d_w), .scale = scale});
}

bool has_fused_gelu(const at::Tensor& up) {
  return (up.scalar_type() == at::kBFloat16 || up.scalar_type() == at::kHalf) && up.size(1) % 8 == 0 &&
         alignment(up.const_data_ptr()) >= 16;
}

void linear_gelu_forward(at::Tensor out, at::Tensor up, at::Tensor x, at::Tensor w, at::Tensor bias) {
  const at::ScalarType dtype = check_forward(up, x, w);
  const int64_t N = x.size(0), F = w.size(0);
  check_tensor(out, "out", {N, F}, dtype);
  check_tensor(up, "up", {N, F}, dtype);
  check_tensor(bias, "bias", {F}, dtype);
  if (out.numel() == 0) return;
  PARTITA_CHECK(has_fused_gelu(up) && x.size(1) > 0, "this product has no GELU in it");
  run_product(forward_product(out, x, w, false, Epilogue::gelu),
              {.a = data(w), .b = data(x), .out = mutable_data(out), .bias = data(bias), .aux = mutable_data(up)});
}

void linear_gelu_backward_input(at::Tensor d_up, at::Tensor d_y, at::Tensor w, at::Tensor up) {
  const at::ScalarType dtype = check_activation(d_y, "d_y");
  PARTITA_CHECK(d_y.dim() == 2 && w.defined() && w.dim() == 2, "d_y and w must be matrices");
  const int64_t N = d_y.size(0), C = w.size(0), F = w.size(1);
  check_columns(d_y, "d_y", {N, C}, dtype);
  check_tensor(w, "w", {C, F}, dtype);
  check_tensor(d_up, "d_up", {N, F}, dtype);
  check_tensor(up, "up", {N, F}, dtype);
  if (d_up.numel() == 0) return;
  PARTITA_CHECK(has_fused_gelu(up) && C > 0, "this product has no GELU in it");
  PARTITA_CHECK(d_up.const_data_ptr() != up.const_data_ptr(), "d_up may not be up");
  run_product(input_product(d_up, d_y, w, false, Epilogue::gelu_backward),
              {.a = data(w), .b = data(d_y), .out = mutable_data(d_up), .aux = mutable_data(up)});
}

}  // namespace partita::internal::cuda
