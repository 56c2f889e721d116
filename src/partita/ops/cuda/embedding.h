// Embeddings on a device: the contract of ops/embedding.h, for tensors there. A token or position outside its table is
// noted for check_values() (ops/cuda/values.h); forward takes it for 0, backward leaves it out.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita::internal::cuda {

void embedding_forward(at::Tensor out, at::Tensor tokens, at::Tensor positions, at::Tensor token_table,
                       at::Tensor position_table);
// Rows of a table that many tokens read are added in the order of the tokens, in chunks of fixed size: the same bits in
// every run.
void embedding_backward(Target d_token_table, Target d_position_table, at::Tensor d_out, at::Tensor tokens,
                        at::Tensor positions);

}  // namespace partita::internal::cuda
