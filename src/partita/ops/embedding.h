// Token embedding and learned position embedding.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita::internal {

// out [samples * length, C] = token_table[tokens] + position_table[positions]; tokens, positions [samples, length]
// int32; tables [V, C], [P, C] in out's dtype. position_table undefined: no positions. Error: a token outside 0..V-1 or
// a position outside 0..P-1, with its index.
void embedding_forward(at::Tensor out, at::Tensor tokens, at::Tensor positions, at::Tensor token_table,
                       at::Tensor position_table);
// d_token_table [V, C], d_position_table [P, C] fp32; without accumulation every row is written. Bitwise reproducible.
void embedding_backward(Target d_token_table, Target d_position_table, at::Tensor d_out, at::Tensor tokens,
                        at::Tensor positions);

}  // namespace partita::internal
