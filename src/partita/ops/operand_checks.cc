#include "partita/ops/operand_checks.h"

#include "partita/ops/check.h"

namespace partita::internal {
namespace {

// Checks of dense tensors on one type of device.
class Checks {
 public:
  explicit Checks(at::DeviceType where) : where_(where) {}
  void dense(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) const {
    check_dense(tensor, name, shape, dtype, where_);
  }
  void optional(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) const {
    if (tensor.defined()) dense(tensor, name, shape, dtype);
  }
  void statistics(const at::Tensor& mean, const at::Tensor& rstd, int64_t rows) const {
    optional(mean, "mean", {rows}, at::kFloat);
    dense(rstd, "rstd", {rows}, at::kFloat);
  }
  void norm_bias(const at::Tensor& bias, const at::Tensor& mean, const RowsOperand& size) const {
    if (mean.defined()) return dense(bias, "norm_bias", {size.columns}, size.dtype);
    PARTITA_CHECK(!bias.defined(), "a norm_bias without a mean: layer norm has both, RMS norm neither");
  }
  void amax(const at::Tensor& value) const { optional(value, "amax", {1}, at::kFloat); }

 private:
  at::DeviceType where_;
};

RowsOperand size_of(const at::Tensor& tensor, const char* name) {
  const at::ScalarType dtype = check_activation(tensor, name);
  PARTITA_CHECK(tensor.dim() == 2, "{} has {} dimensions, expected [rows, columns]", name, tensor.dim());
  return {.rows = tensor.size(0), .columns = tensor.size(1), .dtype = dtype};
}

}  // namespace

int64_t check_mask_rows(const Dropout& dropout, int64_t rows) {
  const int64_t all = dropout.rows > 0 ? dropout.rows : rows,
                count = dropout.samples.defined() ? dropout.samples.numel() : 0;
  PARTITA_CHECK(count > 0 && all % count == 0, "{} rows are not whole samples: {} ids", all, count);
  PARTITA_CHECK(dropout.first_row >= 0 && rows <= all - dropout.first_row,
                "{} rows from row {} on are outside a micro-batch of {} rows", rows, dropout.first_row, all);
  PARTITA_CHECK(!dropout.context.cuts() || all / count % 2 == 0,
                "{} rows of each sample on one of {} context-parallel ranks: expected two equal pieces", all / count,
                dropout.context.ranks);
  return all / count;
}

void check_mask_columns(const Dropout& dropout, int64_t columns) {
  PARTITA_CHECK(dropout.first_column >= 0 && (dropout.columns == 0 ? dropout.first_column == 0
                                                                   : columns <= dropout.columns - dropout.first_column),
                "{} columns from column {} on are outside rows of {}", columns, dropout.first_column, dropout.columns);
}

int64_t check_table_rows(const TableRows& rows, int64_t held, const char* name) {
  const int64_t total = rows.total > 0 ? rows.total : held;
  PARTITA_CHECK(rows.first >= 0 && held <= total - rows.first,
                "{}: {} rows from row {} on are outside a table of {} rows", name, held, rows.first, total);
  return total;
}

RowsOperand check_operands(const AddNorm& op, at::DeviceType where) {
  const Checks check(where);
  const RowsOperand size = size_of(op.branch, "branch");
  const auto [N, C, dtype] = size;
  check.dense(op.branch, "branch", {N, C}, dtype);
  check.optional(op.sum, "sum", {N, C}, dtype);
  check.optional(op.bias, "bias", {C}, dtype);
  check.dense(op.weight, "weight", {C}, dtype);
  check.norm_bias(op.norm_bias, op.mean, size);
  check.dense(op.residual, "residual", {N, C}, dtype);
  check.dense(op.normed, "normed", {N, C}, dtype);
  check.statistics(op.mean, op.rstd, N);
  check.amax(op.amax);
  return size;
}

RowsOperand check_norm_recompute(const at::Tensor& normed, const at::Tensor& residual, const at::Tensor& mean,
                                 const at::Tensor& rstd, const at::Tensor& weight, const at::Tensor& norm_bias,
                                 at::DeviceType where) {
  const Checks check(where);
  const RowsOperand size = size_of(residual, "residual");
  const auto [N, C, dtype] = size;
  check.dense(residual, "residual", {N, C}, dtype);
  check.dense(normed, "normed", {N, C}, dtype);
  check.statistics(mean, rstd, N);
  check.dense(weight, "weight", {C}, dtype);
  check.norm_bias(norm_bias, mean, size);
  return size;
}

RowsOperand check_operands(const AddNormBackward& op, at::DeviceType where) {
  const Checks check(where);
  const RowsOperand size = size_of(op.residual, "residual");
  const auto [N, C, dtype] = size;
  check.dense(op.residual, "residual", {N, C}, dtype);
  check.dense(op.d_normed, "d_normed", {N, C}, dtype);
  check.optional(op.d_sum, "d_sum", {N, C}, dtype);
  check.dense(op.weight, "weight", {C}, dtype);
  check.statistics(op.mean, op.rstd, N);
  check.dense(op.d_residual, "d_residual", {N, C}, dtype);
  if (op.dropout.p > 0) check.dense(op.d_branch, "d_branch", {N, C}, dtype);
  PARTITA_CHECK(op.mean.defined() || !op.d_norm_bias.gradient.defined(),
                "d_norm_bias of an RMS norm, which has no bias");
  for (const Target* target : {&op.d_weight, &op.d_norm_bias, &op.d_bias})
    check.optional(target->gradient, "vector gradient", {C}, at::kFloat);
  check.amax(op.amax);
  return size;
}

RowsOperand check_split_logits(const at::Tensor& logits, const at::Tensor& labels, int64_t first_column,
                               int64_t all_columns, at::DeviceType where) {
  const Checks check(where);
  const RowsOperand size = size_of(logits, "logits");
  const auto [n, columns, dtype] = size;
  check.dense(logits, "logits", {n, columns}, dtype);
  check.dense(labels, "labels", {n}, at::kInt);
  PARTITA_CHECK(columns > 0 && first_column >= 0 && columns <= all_columns - first_column,
                "logits: {} columns from column {} on, expected at least one of {}", columns, first_column,
                all_columns);
  return size;
}

int64_t check_split_statistics(const at::Tensor& statistics, int64_t rows, at::DeviceType where) {
  PARTITA_CHECK(statistics.defined() && statistics.dim() == 3 && statistics.size(0) > 0,
                "statistics are missing or not [parts, rows, 3]");
  Checks(where).dense(statistics, "statistics", {statistics.size(0), rows, 3}, at::kFloat);
  return statistics.size(0);
}

RowsOperand check_bias_gelu_backward(const at::Tensor& d_x, const at::Tensor& d_out, const at::Tensor& x,
                                     const Target& d_bias, const at::Tensor& amax, at::DeviceType where) {
  const Checks check(where);
  const RowsOperand size = size_of(x, "x");
  const auto [N, C, dtype] = size;
  check.dense(x, "x", {N, C}, dtype);
  check.dense(d_out, "d_out", {N, C}, dtype);
  check.dense(d_x, "d_x", {N, C}, dtype);
  check.optional(d_bias.gradient, "d_bias", {C}, at::kFloat);
  check.amax(amax);
  return size;
}

at::ScalarType check_rope(const at::Tensor& qkv, const char* name, const at::Tensor& positions, const Heads& heads,
                          const RopeTable& table, at::DeviceType where) {
  const Checks check(where);
  const at::ScalarType dtype = check_activation(qkv, name);
  PARTITA_CHECK(heads.head_width % 2 == 0, "heads are {} wide, rotary positions turn pairs of channels",
                heads.head_width);
  PARTITA_CHECK(qkv.dim() == 3, "{} has {} dimensions, expected [samples, length, width]", name, qkv.dim());
  const int64_t samples = qkv.size(0), length = qkv.size(1), half = heads.head_width / 2;
  check.dense(qkv, name, {samples, length, (heads.heads + 2 * heads.kv_heads) * heads.head_width}, dtype);
  check.dense(positions, "positions", {samples, length}, at::kInt);
  PARTITA_CHECK(table.cos.defined(), "the table of rotary positions is missing");
  const int64_t limit = table.cos.size(0);
  check.dense(table.cos, "cos", {limit, half}, at::kFloat);
  check.dense(table.sin, "sin", {limit, half}, at::kFloat);
  return dtype;
}

OptimizerOperands::OptimizerOperands(const at::Tensor& the_master, std::initializer_list<OptimizerState> the_states,
                                     const at::Tensor& the_gradient, const at::Tensor& the_weight,
                                     const StepScalars* the_now, const Rounding& the_rounding, at::DeviceType where)
    : master(the_master),
      gradient(the_gradient),
      count(the_master.defined() ? the_master.numel() : 0),
      now(the_now),
      rounding(the_rounding) {
  const Checks check(where);
  PARTITA_CHECK(master.defined(), "master is missing");
  PARTITA_CHECK(now != nullptr, "the step's scalars are missing");
  const at::ScalarType dtype = master.scalar_type();
  PARTITA_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "master: dtype {}, expected fp32 or bf16",
                at::toString(dtype));
  check.dense(master, "master", {count}, dtype);
  size_t s = 0;
  for (const OptimizerState& state : the_states) {
    check.dense(state.tensor, state.name, {count}, dtype);
    states[s++] = state.tensor;
  }
  check.dense(gradient, "gradient", {count}, check_activation(gradient, "gradient"));
  if (!the_weight.defined() || the_weight.const_data_ptr() == master.const_data_ptr()) return;
  weight = the_weight;
  const bool half = weight.scalar_type() == at::kBFloat16 || weight.scalar_type() == at::kHalf;
  PARTITA_CHECK(half && dtype == at::kFloat, "weight: dtype {} with master weights in {}, expected {}",
                at::toString(weight.scalar_type()), at::toString(dtype),
                dtype == at::kFloat ? "bf16, fp16 or the master itself" : "the master itself");
  check.dense(weight, "weight", {count}, weight.scalar_type());
}

}  // namespace partita::internal
