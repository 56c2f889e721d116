// Token embedding and learned position embedding. Ranks may hold different rows of a table.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/ops/target.h"

namespace partita::internal {

// The rows of a larger table that a tensor holds.
struct TableRows {
  int64_t first = 0;  // row of the whole table that is the tensor's row 0
  int64_t total = 0;  // rows of the whole table; 0: the tensor is the whole table
};

// out [samples * length, C] = token_table[tokens] + position_table[positions]; tokens, positions [samples, length]
// int32; tables [V, C], [P, C] in out's dtype. position_table undefined: no positions. If the tables are parts of
// larger ones, a token or position in another part adds zero, so that the sum over the parts is the whole. Errors: a
// token or position outside the whole table, with its index; parts outside it.
void embedding_forward(at::Tensor out, at::Tensor tokens, at::Tensor positions, at::Tensor token_table,
                       at::Tensor position_table, TableRows token_rows = {}, TableRows position_rows = {});
// d_token_table [V, C], d_position_table [P, C] fp32; without accumulation every row is written. Bitwise reproducible:
// a part of a table gets the bits of its rows in the whole table.
void embedding_backward(Target d_token_table, Target d_position_table, at::Tensor d_out, at::Tensor tokens,
                        at::Tensor positions, TableRows token_rows = {}, TableRows position_rows = {});

}  // namespace partita::internal
