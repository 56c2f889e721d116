// Rotary positions on a device: the contract of ops/rope.h, for tensors there. A position outside the table is noted
// for check_values() (ops/cuda/values.h) and taken for 0.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/rope.h"

namespace partita::internal::cuda {

// The table of partita::make_rope_table, copied to the device.
void rope_forward(at::Tensor qkv, at::Tensor positions, Heads, const RopeTable&);
void rope_backward(at::Tensor d_qkv, at::Tensor positions, Heads, const RopeTable&);

}  // namespace partita::internal::cuda
