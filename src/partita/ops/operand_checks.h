// Checks of the operands of operations that have a CPU and a CUDA implementation, which both call. They read no
// elements, so that the host does not wait for the device.
//
//   const RowsOperand size = check_operands(op, at::kCUDA);     // size.rows x size.columns of size.dtype
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <initializer_list>

#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"
#include "partita/ops/embedding.h"
#include "partita/ops/norm.h"
#include "partita/ops/rope.h"
#include "partita/ops/rounding.h"
#include "partita/ops/step_scalars.h"
#include "partita/ops/target.h"

namespace partita::internal {

struct RowsOperand {
  int64_t rows, columns;
  at::ScalarType dtype;
};

// Rows per sample of the micro-batch of which the operand has `rows` rows. Errors: a micro-batch that is not whole
// samples; rows outside it.
int64_t check_mask_rows(const Dropout&, int64_t rows);
// Error: columns of the operand outside those of the whole rows.
void check_mask_columns(const Dropout&, int64_t columns);
// Rows of the whole table, of which `held` are there. Error: held rows outside the whole table. `name`: of the table.
int64_t check_table_rows(const TableRows&, int64_t held, const char* name);

// Layer norm has a mean and, in forward, a bias; RMS norm has neither.
RowsOperand check_operands(const AddNorm&, at::DeviceType);
RowsOperand check_operands(const AddNormBackward&, at::DeviceType);
RowsOperand check_norm_recompute(const at::Tensor& normed, const at::Tensor& residual, const at::Tensor& mean,
                                 const at::Tensor& rstd, const at::Tensor& weight, const at::Tensor& norm_bias,
                                 at::DeviceType);

// Of cross-entropy with divided columns: logits and labels; then the statistics, of which it returns the parts.
RowsOperand check_split_logits(const at::Tensor& logits, const at::Tensor& labels, int64_t first_column,
                               int64_t all_columns, at::DeviceType);
int64_t check_split_statistics(const at::Tensor& statistics, int64_t rows, at::DeviceType);

RowsOperand check_bias_gelu_backward(const at::Tensor& d_x, const at::Tensor& d_out, const at::Tensor& x,
                                     const Target& d_bias, const at::Tensor& amax, at::DeviceType);

// `name`: of qkv. Returns its dtype; positions are not read.
at::ScalarType check_rope(const at::Tensor& qkv, const char* name, const at::Tensor& positions, const Heads&,
                          const RopeTable&, at::DeviceType);

struct OptimizerState {
  const char* name;
  at::Tensor tensor;
};

// The checked operands of one optimizer step.
struct OptimizerOperands {
  OptimizerOperands(const at::Tensor& master, std::initializer_list<OptimizerState> states, const at::Tensor& gradient,
                    const at::Tensor& weight, const StepScalars* now, const Rounding&, at::DeviceType);

  at::Tensor master, gradient;
  at::Tensor weight;  // if defined, receives the rounded master
  std::array<at::Tensor, 2> states;
  int64_t count;
  const StepScalars* now;  // where the kernels run
  Rounding rounding;
};

}  // namespace partita::internal
