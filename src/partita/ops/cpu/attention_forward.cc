#include "partita/ops/attention.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "partita/ops/cpu/attention_problem.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/targets.h"
#include "partita/ops/cpu/tile_matmul.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/attention.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/attention_forward.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/attention-inl.h"
#include "partita/ops/cpu/dropout-inl.h"
#include "partita/ops/cpu/simd-inl.h"
#include "partita/ops/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

struct WideKeys;
struct WideValues;
struct WideQueries;
struct KeysTransposed;
struct ValuesPacked;
struct Scores;
struct Probabilities;
struct Multipliers;
struct Output;

// T: storage type; C: type in which tiles are multiplied.
template <class T, class C>
class Forward {
 public:
  explicit Forward(const AttentionProblem& p)
      : p_(p),
        qkv_(p.qkv.const_data_ptr<T>()),
        out_(p.out.mutable_data_ptr<T>()),
        log_sum_(p.log_sum.defined() ? p.log_sum.mutable_data_ptr<float>() : nullptr),
        queries_(p.queries_at_once()),
        stride_(padded(p.key_count())),
        wide_keys_(scratch<float, WideKeys>(widened_size<T, C>(p.key_count() * p.head_width))),
        wide_values_(scratch<float, WideValues>(widened_size<T, C>(p.key_count() * p.head_width))),
        wide_queries_(scratch<float, WideQueries>(widened_size<T, C>(queries_ * p.head_width))),
        keys_(scratch<C, KeysTransposed>(stride_ * p.head_width)),
        values_(scratch<C, ValuesPacked>(even(p.key_count()) * p.head_width)),
        scores_(scratch<float, Scores>(queries_ * stride_)),
        probabilities_(scratch<C, Probabilities>(queries_ * stride_)),
        multipliers_(scratch<float, Multipliers>(stride_ + kMaskPadding)),
        output_(scratch<float, Output>(queries_ * p.head_width)) {}

  // Processes all query heads of one kv head of one sample.
  void run(int64_t sample, int64_t kv_head) {
    const int64_t count = p_.key_count(), D = p_.head_width;
    const Rows<C> k = as_operand<C>(p_.keys_of<T>(sample, kv_head), count, D, wide_keys_);
    const Rows<C> v = as_operand<C>(p_.values_of<T>(sample, kv_head), count, D, wide_values_);
    pack_transposed(k.first, k.stride, count, D, keys_, stride_);
    const C* values = right_operand(v.first, v.stride, count, D, values_);
    for (int64_t head = kv_head * p_.group(); head < (kv_head + 1) * p_.group(); ++head)
      for (int64_t first = 0; first < p_.length; first += p_.block_size(first))
        block(sample, head, first, values, right_stride(values, v.stride, D));
  }

 private:
  void block(int64_t sample, int64_t head, int64_t first, const C* values, int64_t values_stride) {
    const int64_t count = p_.block_size(first), D = p_.head_width;
    const KeyRange keys(p_, sample, first, count, queries_);
    const int64_t width = sizeof(C) == 2 ? even(keys.count) : keys.count;
    const Rows<T> in_memory = {qkv_ + p_.q_at(sample, head) + first * p_.row(), p_.row()};
    const Rows<C> q = as_operand<C>(in_memory, count, D, wide_queries_);
    tile_matmul(count, keys.count, D, q.first, q.stride, from_column(keys_, keys.begin), stride_, scores_, stride_,
                false);
    float inverse[AttentionProblem::kMostQueries];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t query = first + i, from = p_.first_key(sample, query), seen = p_.position(query) + 1 - from;
      const float* multiplier = nullptr;
      if (p_.mask.threshold > 0)
        multiplier = dropout_multipliers(p_.mask, sample_ids(p_.dropout)[static_cast<size_t>(sample)],
                                         p_.element(head, query) + from, seen, multipliers_);
      const int64_t hidden = from - keys.begin;
      C* probabilities = probabilities_ + i * stride_;
      std::fill_n(probabilities, hidden, C(0.0F));
      const float log_sum = softmax_row(scores_ + i * stride_ + hidden, multiplier, p_.scale, seen, width - hidden,
                                        probabilities + hidden, &inverse[i]);
      if (log_sum_ != nullptr) log_sum_[p_.log_sum_at(sample, head) + query] = log_sum;
    }
    tile_matmul(count, D, width, probabilities_, stride_, values + keys.begin * values_stride, values_stride, output_,
                D, false);
    for (int64_t i = 0; i < count; ++i) {
      T* to = out_ + p_.out_at(sample, head) + (first + i) * p_.out_row();
      const V factor = constant(inverse[i]);
      for_vectors(D,
                  [&](int64_t c, auto part) { store(hn::Mul(load(output_ + i * D + c, part), factor), to + c, part); });
    }
  }

  const AttentionProblem& p_;
  const T* qkv_;
  T* out_;
  float* log_sum_;
  int64_t queries_, stride_;
  float *wide_keys_, *wide_values_, *wide_queries_;
  C *keys_, *values_;
  float* scores_;
  C* probabilities_;
  float *multipliers_, *output_;
};

void attention_forward_heads(const AttentionProblem& p, int64_t begin, int64_t end) {
  with_types_of(p, [&]<class T, class C>(T, C) {
    Forward<T, C> forward(p);
    for (int64_t i = begin; i < end; ++i) forward.run(i / p.kv_heads, i % p.kv_heads);
    tile_matmul_done(C(0.0F));
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(attention_forward_heads);

}  // namespace

void attention_tiles(const AttentionProblem& p) {
  at::parallel_for(0, p.samples * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(attention_forward_heads)(p, begin, end);
  });
}

void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads heads, const Dropout& dropout,
                       at::Tensor first_keys, const WholeKeys& keys) {
  PARTITA_DISPATCH(qkv, attention_forward(out, log_sum, qkv, heads, dropout, first_keys, keys));
  attention_tiles(AttentionProblem(out, log_sum, qkv, heads, dropout, first_keys, keys));
}

}  // namespace partita::internal
#endif  // HWY_ONCE
