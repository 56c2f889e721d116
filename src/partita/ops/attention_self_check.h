// Attention as a library computes it, against our own kernels, at the start of a run: a library of another version, or
// a card that it does not know well, shows itself before a loss does.
//
//   attention_self_check(device, DType::bf16, 8, 2048, {.heads = 32, .kv_heads = 4, .head_width = 64});
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/dtype.h"
#include "partita/ops/attention.h"

namespace partita::internal {

// Forward and backward of random values of that shape, without dropout; takes memory for some four of its qkv, and
// gives it back. Nothing where no library computes it: on the CPU, in fp32. Error: names library, version, shape and
// what differs.
void attention_self_check(at::Device, DType, int64_t samples, int64_t length, Heads);

// Bytes of scratch memory that such attention, and the library of matrix products, take on the device. It is taken
// here, once for the whole run, and plans are made, rather than in the first step. 0 on the CPU.
int64_t reserve_workspace(at::Device, DType, int64_t samples, int64_t length, Heads, float dropout);

}  // namespace partita::internal
