// The operands of y = x W' + b in the forms in which modules of torch compute it.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>

namespace partita::internal {

struct LinearOperands {
  at::Tensor x, weight, bias;  // weight [outputs, inputs], or the transpose of what was given; bias undefined: none
};

// Of linear(x, W, b), matmul(x, W') and addmm(b, x, W'), if W is a whole matrix and b a vector; else none.
[[nodiscard]] std::optional<LinearOperands> linear_operands(const c10::FunctionSchema& operation,
                                                            at::ArrayRef<c10::IValue> operands);

// The parameter of which the matrix is a view of all elements in order, or which it is; undefined: it is none.
[[nodiscard]] at::Tensor parameter_of(const at::Tensor& matrix);

}  // namespace partita::internal
