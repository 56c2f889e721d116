// Interface between attention.cc, which selects the implementation, and the cuDNN part (attention_cudnn.cc).
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"

namespace partita::internal::cuda {

// The checked operands of one call.
struct AttentionProblem {
  at::Tensor qkv, out;
  // With context parallelism: [samples, heads, queries] of the rank's first piece, then of its second, because cuDNN's
  // backward reads only packed sums. May be undefined.
  at::Tensor log_sum;
  at::Tensor d_qkv{}, d_out{};  // backward only
  at::Tensor first_keys{};      // undefined: all 0
  Heads heads{};
  Dropout dropout{};
  WholeKeys keys{};
  at::Tensor d_keys_values{};  // backward with WholeKeys only
};

// Queries of consecutive positions: all of a sample, or one of a rank's two pieces, which are separate calls of cuDNN.
struct QueryRun {
  int64_t first = 0, count = 0;
  int64_t position = 0;  // of the first: with `count`, how many keys the last one reads
  [[nodiscard]] int64_t keys() const { return position + count; }
};
// The longer piece first.
[[nodiscard]] std::vector<QueryRun> query_runs(int64_t length, const ContextSplit&);

// What cuDNN needs to know of a problem; also the key of the plan cache.
struct CudnnPlan {
  enum class Kind : uint8_t { inference, forward, backward, repeatable_backward } kind = Kind::forward;
  at::ScalarType dtype = at::kBFloat16;
  int device = 0;
  int64_t samples = 0, heads = 0, kv_heads = 0, head_width = 0;
  int64_t queries = 0, keys = 0;  // of the call: of a sample
  int64_t length = 0, whole = 0;  // tokens of a sample in memory: of qkv and out; of WholeKeys, or 0
  int64_t gradient_keys = 0;      // of WholeKeys: tokens of a sample where d_k and d_v are written
  float dropout = 0;
  friend auto operator<=>(const CudnnPlan&, const CudnnPlan&) = default;
};

// Bytes of workspace, or -1 if cuDNN has no plan. Cached.
[[nodiscard]] int64_t cudnn_workspace(const CudnnPlan&);
// Runs a plan for which cudnn_workspace() is not -1. Where gradient_keys is less than `whole`, the gradients of keys
// and values are added to those in d_keys_values.
void run_cudnn(const CudnnPlan&, const AttentionProblem&, const QueryRun&);

// Writes cuDNN's seed and offset of a dropout mask, two int64 on the device.
void write_cudnn_seed(int64_t* seed_and_offset, const Dropout&, int64_t first_position);

}  // namespace partita::internal::cuda
