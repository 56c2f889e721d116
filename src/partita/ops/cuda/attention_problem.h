// Interface between attention.cc, which selects the implementation, and the cuDNN part (attention_cudnn.cc).
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"

namespace partita::internal::cuda {

// The checked operands of one call.
struct AttentionProblem {
  at::Tensor qkv, out;
  at::Tensor log_sum;           // may be undefined
  at::Tensor d_qkv{}, d_out{};  // backward only
  at::Tensor first_keys{};      // undefined: all 0
  Heads heads{};
  Dropout dropout{};
};

// What cuDNN needs to know of a problem; also the key of the plan cache.
struct CudnnPlan {
  enum class Kind : uint8_t { inference, forward, backward, repeatable_backward } kind = Kind::forward;
  at::ScalarType dtype = at::kBFloat16;
  int device = 0;
  int64_t samples = 0, length = 0, heads = 0, kv_heads = 0, head_width = 0;
  float dropout = 0;
  friend auto operator<=>(const CudnnPlan&, const CudnnPlan&) = default;
};

// Bytes of workspace, or -1 if cuDNN has no plan. Cached.
[[nodiscard]] int64_t cudnn_workspace(const CudnnPlan&);
// Runs a plan for which cudnn_workspace() is not -1.
void run_cudnn(const CudnnPlan&, const AttentionProblem&);

// Writes cuDNN's seed and offset of a dropout mask, two int64 on the device.
void write_cudnn_seed(int64_t* seed_and_offset, const Dropout&);

}  // namespace partita::internal::cuda
