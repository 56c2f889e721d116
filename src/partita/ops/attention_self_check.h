// Compares a library's attention with our own kernels at startup, so that an incompatible library version or a poorly
// supported card shows up before it shows in the loss.
//
//   attention_self_check(device, DType::bf16, 8, 2048, {.heads = 32, .kv_heads = 4, .head_width = 64});
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/context_split.h"
#include "partita/base/dtype.h"
#include "partita/ops/attention.h"

namespace partita::internal {

// Runs forward and backward on random values of this shape, of `length` tokens of each sample on this rank, without
// dropout; temporarily takes memory for about four
// times its qkv. A no-op where no library is used: on the CPU and in fp32. Error: names the library, version, shape and
// what differs.
void attention_self_check(at::Device, DType, int64_t samples, int64_t length, Heads, const ContextSplit& = {});

// Reserves device workspace for attention and matmul libraries, and builds their plans, once for the whole run rather
// than in the first step. Returns its bytes; 0 on the CPU.
int64_t reserve_workspace(at::Device, DType, int64_t samples, int64_t length, Heads, float dropout,
                          const ContextSplit& = {});

}  // namespace partita::internal
