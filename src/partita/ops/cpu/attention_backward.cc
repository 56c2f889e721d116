#include "partita/ops/attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "partita/ops/cpu/attention_problem.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/targets.h"
#include "partita/ops/cpu/tile_matmul.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/attention.h"
#endif
#include "partita/ops/deterministic.h"
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/attention_backward.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/attention-inl.h"
#include "partita/ops/cpu/dropout-inl.h"
#include "partita/ops/cpu/simd-inl.h"
#include "partita/ops/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

struct WideKeys;
struct WideQueries;
struct WideDOut;
struct KeysTransposed;
struct ValuesTransposed;
struct KeysPacked;
struct Scores;
struct Multipliers;
struct DProbabilities;
struct DScores;
struct ProbabilityPairs;
struct DScorePairs;
struct QueriesTransposed;
struct DOutTransposed;
struct RowPairs;
struct DQueries;
struct DKeysTransposed;
struct DValuesTransposed;
struct DTransposed;

// Backward of one row, in place: from scores and d_probabilities to dropped-out probabilities and d_scores.
//   p = exp(scale * score - log_sum);  d_score = scale * p * (multiplier * d_p - delta);  score <- multiplier * p
HWY_INLINE void backward_row(float* score, float* d_p, const float* multiplier, float scale, float log_sum, float delta,
                             int64_t keys, int64_t width) {
  for (int64_t i = 0; i < keys; i += lanes()) {
    const V p = exp(hn::MulSub(load(score + i, All{}), constant(scale), constant(log_sum)));
    V d = load(d_p + i, All{}), dropped = p;
    if (multiplier != nullptr) {
      const V m = load(multiplier + i, All{});
      d = hn::Mul(d, m);
      dropped = hn::Mul(p, m);
    }
    store(dropped, score + i, All{});
    store(hn::Mul(hn::Mul(p, constant(scale)), hn::Sub(d, constant(delta))), d_p + i, All{});
  }
  for (int64_t i = keys; i < width; ++i) score[i] = d_p[i] = 0;
}

// fp32 rows as operands: fp32 unchanged; bf16 rounded, as rows (left operand) and as pairs of rows (right operand).
template <class T>
struct Operands {
  const T *left, *right;
};
HWY_INLINE Operands<float> operands(const float* in, int64_t, int64_t, int64_t, float*, float*) { return {in, in}; }
HWY_INLINE Operands<at::BFloat16> operands(const float* in, int64_t stride, int64_t rows, int64_t width,
                                           at::BFloat16* left, at::BFloat16* right) {
  const DU32 d;
  const auto upper = hn::Set(d, 0xFFFF0000U);
  for (int64_t r = 0; r < rows; r += 2) {
    const float *a = in + r * stride, *b = r + 1 < rows ? a + stride : nullptr;
    auto* pairs = reinterpret_cast<uint32_t*>(right) + r / 2 * stride;
    for (int64_t i = 0; i < width; i += lanes()) {
      const auto first = bf16_bits(load(a + i, All{}));
      const auto second = b != nullptr ? bf16_bits(load(b + i, All{})) : hn::Zero(d);
      hn::StoreU(hn::Or(hn::ShiftRight<16>(first), hn::And(second, upper)), d, pairs + i);
      if (left == nullptr) continue;
      store_upper(first, left + r * stride + i);
      store_upper(second, left + (r + 1) * stride + i);
    }
  }
  return {left, right};
}

// T: storage type; C: type in which tiles are multiplied.
template <class T, class C>
class Backward {
 public:
  explicit Backward(const AttentionProblem& p)
      : p_(p),
        D(p.head_width),
        queries_(p.queries_at_once()),
        stride_(padded(p.key_count())),
        qkv_(p.qkv.const_data_ptr<T>()),
        out_(p.out.const_data_ptr<T>()),
        d_out_(p.d_out.const_data_ptr<T>()),
        d_qkv_(p.d_qkv.mutable_data_ptr<T>()),
        log_sum_(p.log_sum.const_data_ptr<float>()),
        wide_keys_(scratch<float, WideKeys>(widened_size<T, C>(p.key_count() * D))),
        wide_queries_(scratch<float, WideQueries>(widened_size<T, C>(queries_ * D))),
        wide_d_out_(scratch<float, WideDOut>(widened_size<T, C>(queries_ * D))),
        keys_t_(scratch<C, KeysTransposed>(stride_ * D)),
        values_t_(scratch<C, ValuesTransposed>(stride_ * D)),
        keys_(scratch<C, KeysPacked>(even(p.key_count()) * D)),
        scores_(scratch<float, Scores>(queries_ * stride_)),
        d_probabilities_(scratch<float, DProbabilities>(queries_ * stride_)),
        probability_pairs_(scratch<C, ProbabilityPairs>(queries_ * stride_)),
        d_scores_(scratch<C, DScores>(queries_ * stride_)),
        d_score_pairs_(scratch<C, DScorePairs>(queries_ * stride_)),
        queries_t_(scratch<C, QueriesTransposed>(queries_ * D)),
        d_out_t_(scratch<C, DOutTransposed>(queries_ * D)),
        row_pairs_(scratch<C, RowPairs>(queries_ * D)),
        d_queries_(scratch<float, DQueries>(queries_ * D)),
        d_keys_t_(scratch<float, DKeysTransposed>(stride_ * D)),
        d_values_t_(scratch<float, DValuesTransposed>(stride_ * D)),
        transposed_(scratch<float, DTransposed>(p.key_count() * D)),
        multipliers_(scratch<float, Multipliers>(stride_ + kMaskPadding)) {}

  void run(int64_t sample, int64_t kv_head) {
    const int64_t count = p_.key_count();
    const Rows<C> v = as_operand<C>(p_.values_of<T>(sample, kv_head), count, D, wide_keys_);
    pack_transposed(v.first, v.stride, count, D, values_t_, stride_);
    // Reuses the place of the values, which are packed by now.
    const Rows<C> k = as_operand<C>(p_.keys_of<T>(sample, kv_head), count, D, wide_keys_);
    pack_transposed(k.first, k.stride, count, D, keys_t_, stride_);
    const C* keys = right_operand(k.first, k.stride, count, D, keys_);
    const int64_t keys_stride = right_stride(keys, k.stride, D);
    std::memset(d_keys_t_, 0, static_cast<size_t>(stride_ * D) * sizeof(float));
    std::memset(d_values_t_, 0, static_cast<size_t>(stride_ * D) * sizeof(float));
    for (int64_t head = kv_head * p_.group(); head < (kv_head + 1) * p_.group(); ++head)
      for (int64_t first = 0; first < p_.length; first += p_.block_size(first))
        block(sample, head, first, keys, keys_stride);
    if (p_.d_whole.defined()) {
      T* d_whole = p_.d_whole.mutable_data_ptr<T>();
      write_transposed(d_keys_t_, d_whole + p_.whole_at(sample, kv_head), p_.whole_row());
      write_transposed(d_values_t_, d_whole + p_.whole_at(sample, p_.kv_heads + kv_head), p_.whole_row());
    } else {
      write_transposed(d_keys_t_, d_qkv_ + p_.k_at(sample, kv_head), p_.row());
      write_transposed(d_values_t_, d_qkv_ + p_.v_at(sample, kv_head), p_.row());
    }
  }

 private:
  void block(int64_t sample, int64_t head, int64_t first, const C* keys_right, int64_t keys_stride) {
    const int64_t count = p_.block_size(first);
    const KeyRange keys(p_, sample, first, count, queries_);
    const int64_t depth = sizeof(C) == 2 ? even(count) : count, width = sizeof(C) == 2 ? even(keys.count) : keys.count;
    const int64_t out_at = p_.out_at(sample, head) + first * p_.out_row();
    const T *d_out = d_out_ + out_at, *out = out_ + out_at;
    const Rows<T> q_in_memory = {qkv_ + p_.q_at(sample, head) + first * p_.row(), p_.row()};
    const Rows<C> q = as_operand<C>(q_in_memory, count, D, wide_queries_);
    const Rows<C> d = as_operand<C>(Rows<T>{d_out, p_.out_row()}, count, D, wide_d_out_);
    tile_matmul(count, keys.count, D, q.first, q.stride, from_column(keys_t_, keys.begin), stride_, scores_, stride_,
                false);
    tile_matmul(count, keys.count, D, d.first, d.stride, from_column(values_t_, keys.begin), stride_, d_probabilities_,
                stride_, false);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t query = first + i, from = p_.first_key(sample, query), seen = p_.position(query) + 1 - from;
      const float* multiplier = nullptr;
      if (p_.mask.threshold > 0)
        multiplier = dropout_multipliers(p_.mask, sample_ids(p_.dropout)[static_cast<size_t>(sample)],
                                         p_.element(head, query) + from, seen, multipliers_);
      const int64_t hidden = from - keys.begin;
      float *score = scores_ + i * stride_, *d_p = d_probabilities_ + i * stride_;
      std::fill_n(score, hidden, 0.0F);
      std::fill_n(d_p, hidden, 0.0F);
      backward_row(score + hidden, d_p + hidden, multiplier, p_.scale, log_sum_[p_.log_sum_at(sample, head) + query],
                   dot(out + i * p_.out_row(), d_out + i * p_.out_row()), seen, width - hidden);
    }
    const auto p = operands(scores_, stride_, count, width, static_cast<C*>(nullptr), probability_pairs_);
    const auto d_s = operands(d_probabilities_, stride_, count, width, d_scores_, d_score_pairs_);
    transpose_left(q.first, q.stride, count, D, queries_t_, queries_, row_pairs_);
    transpose_left(d.first, d.stride, count, D, d_out_t_, queries_, row_pairs_);
    tile_matmul(D, keys.count, depth, d_out_t_, queries_, p.right, stride_, d_values_t_ + keys.begin, stride_, true);
    tile_matmul(D, keys.count, depth, queries_t_, queries_, d_s.right, stride_, d_keys_t_ + keys.begin, stride_, true);
    tile_matmul(count, D, width, d_s.left, stride_, keys_right + keys.begin * keys_stride, keys_stride, d_queries_, D,
                false);
    for (int64_t i = 0; i < count; ++i) {
      T* to = d_qkv_ + p_.q_at(sample, head) + (first + i) * p_.row();
      for_vectors(D, [&](int64_t c, auto part) { store(load(d_queries_ + i * D + c, part), to + c, part); });
    }
  }

  // sum of out * d_out for one query: what softmax backward subtracts from each d_p
  float dot(const T* a, const T* b) const {
    V sum = hn::Zero(hn::ScalableTag<float>());
    for_vectors(D, [&](int64_t c, auto part) { sum = hn::MulAdd(load(a + c, part), load(b + c, part), sum); });
    return sum_of_lanes(sum);
  }

  // to [keys, D], with `stride` elements between keys, = transpose of in [D, keys].
  void write_transposed(const float* in, T* to, int64_t stride) {
    const int64_t count = p_.key_count();
    pack_transposed(in, stride_, D, count, transposed_, D);
    for (int64_t t = 0; t < count; ++t)
      for_vectors(D,
                  [&](int64_t c, auto part) { store(load(transposed_ + t * D + c, part), to + t * stride + c, part); });
  }

  const AttentionProblem& p_;
  int64_t D, queries_, stride_;
  const T *qkv_, *out_, *d_out_;
  T* d_qkv_;
  const float* log_sum_;
  float *wide_keys_, *wide_queries_, *wide_d_out_;
  C *keys_t_, *values_t_, *keys_;
  float *scores_, *d_probabilities_;
  C *probability_pairs_, *d_scores_, *d_score_pairs_, *queries_t_, *d_out_t_, *row_pairs_;
  float *d_queries_, *d_keys_t_, *d_values_t_, *transposed_, *multipliers_;
};

void attention_backward_heads(const AttentionProblem& p, int64_t begin, int64_t end) {
  with_types_of(p, [&]<class T, class C>(T, C) {
    Backward<T, C> backward(p);
    for (int64_t i = begin; i < end; ++i) backward.run(i / p.kv_heads, i % p.kv_heads);
    tile_matmul_done(C(0.0F));
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(attention_backward_heads);

}  // namespace

void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv,
                        Heads heads, const Dropout& dropout, at::Tensor first_keys, const WholeKeys& keys,
                        at::Tensor d_keys_values) {
  PARTITA_DISPATCH(qkv, attention_backward(d_qkv, d_out, out, log_sum, qkv, heads, dropout, first_keys, keys,
                                           d_keys_values, is_deterministic()));
  AttentionProblem p(out, log_sum, qkv, heads, dropout, first_keys, keys);
  PARTITA_CHECK(log_sum.defined(), "log_sum is missing");
  check_tensor(d_out, "d_out", out.sizes(), qkv.scalar_type());
  check_tensor(d_qkv, "d_qkv", qkv.sizes(), qkv.scalar_type());
  if (p.whole.defined()) check_tensor(d_keys_values, "d_keys_values", p.whole.sizes(), qkv.scalar_type());
  p.d_out = d_out, p.d_qkv = d_qkv, p.d_whole = d_keys_values;
  at::parallel_for(0, p.samples * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(attention_backward_heads)(p, begin, end);
  });
}

}  // namespace partita::internal
#endif  // HWY_ONCE
