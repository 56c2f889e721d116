// The checked operands of an attention call, for the kernels in cpu/attention_*.cc.
#pragma once
#include <algorithm>

#include "partita/ops/attention.h"
#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/mask.h"

namespace partita::internal {

// Vectors of one head of one sample, one per token.
template <class T>
struct Rows {
  const T* first;
  int64_t stride;  // elements between tokens
};

struct AttentionProblem {
  // Errors: kv_heads that do not divide heads; wrong shapes or dtypes; a first head below 0; first keys that decrease
  // or exceed their query; an odd number of queries in two pieces.
  AttentionProblem(const at::Tensor& the_out, const at::Tensor& the_log_sum, const at::Tensor& packed, const Heads&,
                   const Dropout&, const at::Tensor& the_first_keys, const WholeKeys& = {});

  // Small blocks compute less of the masked part; large ones read keys less often.
  static constexpr int64_t kMostQueries = 64;
  [[nodiscard]] int64_t queries_at_once() const { return split.ranks * length <= 512 ? 32 : kMostQueries; }
  // Number of keys of a sample.
  [[nodiscard]] int64_t key_count() const { return past + split.ranks * length; }
  // Position of a query among the keys: the last key that it reads.
  [[nodiscard]] int64_t position(int64_t query) const { return past + split.position(query, length); }
  // Queries of a block, of consecutive positions, that begins at `first`.
  [[nodiscard]] int64_t block_size(int64_t first) const {
    const int64_t run = split.run(length);
    return std::min(queries_at_once(), (first < run ? run : length) - first);
  }
  // Whether tiles are multiplied in bf16 (tile_matmul.h): requires CPU support and an even width. Otherwise they are
  // fp32, or widened to it.
  [[nodiscard]] bool has_bf16_tiles() const;

  [[nodiscard]] int64_t group() const { return heads / kv_heads; }                   // query heads per kv head
  [[nodiscard]] int64_t row() const { return (heads + 2 * kv_heads) * head_width; }  // token stride in qkv
  [[nodiscard]] int64_t out_row() const { return heads * head_width; }
  // Offsets in qkv of the vectors of the first token.
  [[nodiscard]] int64_t q_at(int64_t sample, int64_t head) const { return sample * length * row() + head * head_width; }
  [[nodiscard]] int64_t k_at(int64_t sample, int64_t kv_head) const { return q_at(sample, heads + kv_head); }
  [[nodiscard]] int64_t v_at(int64_t sample, int64_t kv_head) const { return q_at(sample, heads + kv_heads + kv_head); }
  [[nodiscard]] int64_t out_at(int64_t sample, int64_t head) const {
    return sample * length * out_row() + head * head_width;
  }
  [[nodiscard]] int64_t log_sum_at(int64_t sample, int64_t head) const { return (sample * heads + head) * length; }
  // Dropout element index of the first key for a query.
  [[nodiscard]] int64_t element(int64_t head, int64_t query) const {
    return ((dropout.first_head + head) * key_count() + position(query)) * key_count();
  }
  // First key that a query reads.
  [[nodiscard]] int64_t first_key(int64_t sample, int64_t query) const {
    return first_key_data == nullptr ? 0 : first_key_data[sample * length + query];
  }
  // key_count() keys and values: in qkv, of whole sequences or in the cache.
  template <class T>
  [[nodiscard]] Rows<T> keys_of(int64_t sample, int64_t kv_head) const {
    if (whole.defined()) return {whole.const_data_ptr<T>() + whole_at(sample, kv_head), whole_row()};
    if (!keys.defined()) return {qkv.const_data_ptr<T>() + k_at(sample, kv_head), row()};
    return {keys.const_data_ptr<T>() + kept_at(sample, kv_head), head_width};
  }
  template <class T>
  [[nodiscard]] Rows<T> values_of(int64_t sample, int64_t kv_head) const {
    if (whole.defined()) return {whole.const_data_ptr<T>() + whole_at(sample, kv_heads + kv_head), whole_row()};
    if (!values.defined()) return {qkv.const_data_ptr<T>() + v_at(sample, kv_head), row()};
    return {values.const_data_ptr<T>() + kept_at(sample, kv_head), head_width};
  }
  // Offset of the first position of a key head, or a value head after these, in the keys of whole sequences.
  [[nodiscard]] int64_t whole_row() const { return 2 * kv_heads * head_width; }
  [[nodiscard]] int64_t whole_at(int64_t sample, int64_t head) const {
    return sample * key_count() * whole_row() + head * head_width;
  }
  // Offset of a head's first position in keys and values.
  [[nodiscard]] int64_t kept_at(int64_t sample, int64_t kv_head) const {
    return (sample * kv_heads + kv_head) * keys.size(2) * head_width;
  }

  at::Tensor qkv, out;
  at::Tensor whole, d_whole;  // context parallelism only: WholeKeys::keys_values
  ContextSplit split;
  at::Tensor log_sum;       // may be undefined
  at::Tensor d_out, d_qkv;  // backward only
  at::Tensor keys, values;  // generation only: [samples, kv_heads, capacity, head_width]
  int64_t past = 0;         // cached positions before those of qkv
  int64_t samples, length, heads, kv_heads, head_width;
  at::Tensor first_keys;  // undefined: all 0
  const int32_t* first_key_data = nullptr;
  Dropout dropout;
  Mask mask;
  float scale;
};

// Forward with tile matmuls, all heads.
void attention_tiles(const AttentionProblem&);

}  // namespace partita::internal
