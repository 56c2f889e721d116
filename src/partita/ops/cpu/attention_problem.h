// The operands of one attention call, as the kernels of cpu/attention.cc see them.
#pragma once
#include <cmath>

#include "partita/ops/attention.h"
#include "partita/ops/cpu/mask.h"

namespace partita {

struct AttentionProblem {
  AttentionProblem(const at::Tensor& packed, const Heads& all, const Dropout& dropped)
      : qkv(packed),
        samples(packed.size(0)),
        length(packed.size(1)),
        heads(all.heads),
        kv_heads(all.kv_heads),
        head_width(all.head_width),
        dropout(dropped),
        mask(make_mask(dropped, packed.size(0))),
        scale(1 / std::sqrt(static_cast<float>(all.head_width))) {}

  [[nodiscard]] int64_t group() const { return heads / kv_heads; }                   // query heads of a kv head
  [[nodiscard]] int64_t row() const { return (heads + 2 * kv_heads) * head_width; }  // elements between tokens of qkv
  [[nodiscard]] int64_t out_row() const { return heads * head_width; }
  // Elements from the start of qkv to the first token's vector.
  [[nodiscard]] int64_t q_at(int64_t sample, int64_t head) const { return sample * length * row() + head * head_width; }
  [[nodiscard]] int64_t k_at(int64_t sample, int64_t kv_head) const { return q_at(sample, heads + kv_head); }
  [[nodiscard]] int64_t v_at(int64_t sample, int64_t kv_head) const { return q_at(sample, heads + kv_heads + kv_head); }
  [[nodiscard]] int64_t out_at(int64_t sample, int64_t head) const {
    return sample * length * out_row() + head * head_width;
  }
  [[nodiscard]] int64_t log_sum_at(int64_t sample, int64_t head) const { return (sample * heads + head) * length; }
  // Dropout's index of the first key of a query.
  [[nodiscard]] int64_t element(int64_t head, int64_t query) const { return (head * length + query) * length; }

  at::Tensor qkv, out, log_sum, d_out, d_qkv;  // the last two in backward only
  int64_t samples, length, heads, kv_heads, head_width;
  Dropout dropout;
  Mask mask;
  float scale;
};

}  // namespace partita
