// Keys and values of past tokens, so that generation computes each token once.
//
//   KvCache cache = make_kv_cache(layers, heads, {.samples = 1, .length = 1024}, DType::fp32);
//   at::Tensor logits = engine.logits(prompt, vocabulary, &cache);
//   ... engine.logits(next_token, vocabulary, &cache) ...
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/base/dtype.h"
#include "partita/nn/block.h"
#include "partita/ops/attention.h"

namespace partita {

struct KvCache {
  std::vector<at::Tensor> keys, values;  // [layer]: [samples, kv_heads, capacity, head_width]
  int64_t past = 0;                      // positions held

  [[nodiscard]] int64_t capacity() const { return keys.front().size(2); }
};

// capacity.length: maximum number of positions.
[[nodiscard]] KvCache make_kv_cache(int64_t layers, internal::Heads, Shape capacity, DType, at::Device = at::kCPU);

}  // namespace partita
