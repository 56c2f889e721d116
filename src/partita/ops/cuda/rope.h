// Rotary position embedding on a device: contract of ops/rope.h. A position outside the table is recorded for
// check_values() (ops/cuda/values.h) and treated as 0.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/rope.h"

namespace partita::internal::cuda {

// RopeTable: the table of partita::make_rope_table, copied to the device.
void rope_forward(at::Tensor qkv, at::Tensor positions, Heads, const RopeTable&);
void rope_backward(at::Tensor d_qkv, at::Tensor positions, Heads, const RopeTable&);

}  // namespace partita::internal::cuda
