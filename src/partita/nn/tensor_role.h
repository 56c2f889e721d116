// What tensor-parallel ranks do with a matrix and what belongs to it: the values of a plan (models/tensor_division.h,
// module/tensor_plan.h), by their names.
//
//   find_enum<TensorRole>("column");   // TensorRole::column
#pragma once
#include <array>
#include <cstdint>

#include "partita/base/enum_names.h"

namespace partita {

enum class TensorRole : uint8_t {
  column,      // a linear whose outputs are divided: rows of its weight [outputs, inputs], and its bias
  row,         // a linear whose inputs are divided: columns of its weight; the sum over ranks and its bias are whole
  vocabulary,  // an embedding, or a linear to logits, whose rows, one per token, are divided
  replicate,   // every rank has all of it and computes the same, as with modules that no rule names
  // Every rank has all of it, but applies it to a part of what a single process would, such as a norm of each head:
  // gradients are summed over the ranks.
  replicate_sum,
};

template <>
struct EnumNames<TensorRole> {
  static constexpr std::array kNames = {"column", "row", "vocabulary", "replicate", "replicate_sum"};
};

}  // namespace partita
