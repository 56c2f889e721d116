#include "partita/ops/cpu/attention_problem.h"

#include <cmath>

#include "partita/ops/cpu/products.h"

namespace partita::internal {

AttentionProblem::AttentionProblem(const at::Tensor& the_out, const at::Tensor& the_log_sum, const at::Tensor& packed,
                                   const Heads& all, const Dropout& dropped, const at::Tensor& the_first_keys,
                                   const WholeKeys& keys_of_all)
    : qkv(packed),
      out(the_out),
      whole(keys_of_all.keys_values),
      split(keys_of_all.split),
      log_sum(the_log_sum),
      samples(packed.size(0)),
      length(packed.size(1)),
      heads(all.heads),
      kv_heads(all.kv_heads),
      head_width(all.head_width),
      first_keys(the_first_keys),
      dropout(dropped),
      mask(make_mask(dropped, packed.size(0))),
      scale(1 / std::sqrt(static_cast<float>(all.head_width))) {
  const at::ScalarType dtype = check_activation(qkv, "qkv");
  PARTITA_CHECK(kv_heads > 0 && heads % kv_heads == 0, "{} query heads do not divide among {} key/value heads", heads,
                kv_heads);
  PARTITA_CHECK(dropout.first_head >= 0, "dropout of attention: the first head is {}", dropout.first_head);
  check_tensor(qkv, "qkv", {samples, length, row()}, dtype);
  check_tensor(out, "out", {samples, length, out_row()}, dtype);
  check_optional(log_sum, "log_sum", {samples, heads, length}, at::kFloat);
  PARTITA_CHECK(whole.defined() == split.cuts() && length % (split.cuts() ? 2 : 1) == 0,
                "queries of one of {} ranks: {} of each sample, {} keys of whole sequences", split.ranks, length,
                whole.defined() ? "with" : "without");
  if (whole.defined()) check_tensor(whole, "keys_values", {samples, key_count(), whole_row()}, dtype);
  if (!first_keys.defined()) return;
  check_tensor(first_keys, "first_keys", {samples, length}, at::kInt);
  first_key_data = first_keys.const_data_ptr<int32_t>();
  for (int64_t s = 0; s < samples; ++s)
    for (int64_t t = 0, least = 0; t < length; ++t) {
      const int64_t first = first_key(s, t), last = position(t);
      PARTITA_CHECK(least <= first && first <= last, "first_keys: {} at position {} of sample {}, expected {} to {}",
                    first, last, s, least, last);
      least = first;
    }
}

bool AttentionProblem::has_bf16_tiles() const {
  return qkv.scalar_type() == at::kBFloat16 && head_width % 2 == 0 && cpu_matmul_support().bf16;
}

}  // namespace partita::internal
