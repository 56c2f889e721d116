#include "partita/module/linear_operands.h"

#include <string_view>

namespace partita::internal {
namespace {

at::Tensor optional_tensor(const c10::IValue& value) { return value.isNone() ? at::Tensor() : value.toTensor(); }

}  // namespace

std::optional<LinearOperands> linear_operands(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> operands) {
  if (!schema.overload_name().empty()) return {};  // those with an output or another dtype
  const std::string_view operation = schema.name();
  LinearOperands linear;
  if (operation == "aten::linear") {
    linear = {operands[0].toTensor(), operands[1].toTensor(), optional_tensor(operands[2])};
  } else if (operation == "aten::matmul" || operation == "aten::mm") {
    linear = {operands[0].toTensor(), operands[1].toTensor(), {}};
  } else if (operation == "aten::addmm" && operands[0].toTensor().dim() == 1 && operands[3].toScalar().equal(1) &&
             operands[4].toScalar().equal(1)) {
    linear = {operands[1].toTensor(), operands[2].toTensor(), operands[0].toTensor()};
  } else {
    return {};
  }
  if (linear.weight.dim() != 2) return {};
  if (operation != "aten::linear") linear.weight = linear.weight.t();
  if (!linear.weight.is_contiguous()) return {};
  return linear;
}

at::Tensor parameter_of(const at::Tensor& matrix) {
  if (matrix.is_leaf()) return matrix;
  if (!matrix.is_view()) return {};
  const at::Tensor base(matrix._base());
  const bool whole = base.is_leaf() && base.sizes() == matrix.sizes() && base.strides() == matrix.strides() &&
                     base.storage_offset() == matrix.storage_offset();
  return whole ? base : at::Tensor();
}

}  // namespace partita::internal
