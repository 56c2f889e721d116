#include "partita/ops/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "partita/ops/cpu/check.h"
#include "partita/ops/flat.h"

namespace partita {

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias) {
  if (bias.defined()) {
    at::addmm_out(y, bias, x, w.t());
  } else {
    at::mm_out(y, x, w.t());
  }
}

void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w) { at::mm_out(d_x, d_y, w); }

void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate) {
  if (d_w.scalar_type() != x.scalar_type()) {
    const at::Tensor product = at::mm(d_y.t(), x);
    add_into(d_w.view({-1}), product.view({-1}), accumulate);
  } else if (accumulate) {
    at::addmm_out(d_w, d_w, d_y.t(), x);
  } else {
    at::mm_out(d_w, d_y.t(), x);
  }
}

}  // namespace partita
