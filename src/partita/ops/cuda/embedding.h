// Embeddings on a device: contract of ops/embedding.h. A token or position outside its whole table is recorded for
// check_values() (ops/cuda/values.h); forward treats it as 0, backward skips it.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/embedding.h"
#include "partita/ops/target.h"

namespace partita::internal::cuda {

void embedding_forward(at::Tensor out, at::Tensor tokens, at::Tensor positions, at::Tensor token_table,
                       at::Tensor position_table, TableRows token_rows = {}, TableRows position_rows = {});
// Gradients of a row used by many tokens are added in token order, in chunks of all tokens that do not depend on which
// rows are held: bitwise reproducible.
void embedding_backward(Target d_token_table, Target d_position_table, at::Tensor d_out, at::Tensor tokens,
                        at::Tensor positions, TableRows token_rows = {}, TableRows position_rows = {});

}  // namespace partita::internal::cuda
