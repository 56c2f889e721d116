// Queries are taken a block at a time, with all keys that the last of them may see: scores of a block stand in cache,
// so the softmax needs no running maximum, and what the causal mask excludes is not computed past the block's end.
#include "partita/ops/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include "partita/ops/cpu/attention_problem.h"
#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/targets.h"
#include "partita/ops/cpu/tile_matmul.h"
#include "partita/ops/flat.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/attention.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dropout-inl.h"
#include "partita/ops/cpu/simd-inl.h"
#include "partita/ops/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::HWY_NAMESPACE {
namespace {

struct KeysTransposed;
struct ValuesPacked;
struct ValuesTransposed;
struct KeysPacked;
struct Scores;
struct Probabilities;
struct Multipliers;
struct Output;
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

// Queries in a block. Small blocks compute less of what the causal mask excludes, large ones read keys less often.
constexpr int64_t kMostQueries = 64;
int64_t queries_of(int64_t length) { return length <= 512 ? 32 : kMostQueries; }

int64_t even(int64_t n) { return n + n % 2; }

// Rows of scores are padded, so that whole vectors may be read and written past the last key.
int64_t padded(int64_t keys) { return (keys + 31) / 16 * 16; }

// The rows of a right operand [rows, columns]: fp32 as they lie, bf16 as pairs in `place`.
const float* right_operand(const float* in, int64_t, int64_t, int64_t, float*) { return in; }
const at::BFloat16* right_operand(const at::BFloat16* in, int64_t ld, int64_t rows, int64_t columns,
                                  at::BFloat16* place) {
  pack_pairs(in, ld, rows, columns, place);
  return place;
}
int64_t right_stride(const float*, int64_t ld, int64_t) { return ld; }
int64_t right_stride(const at::BFloat16*, int64_t, int64_t columns) { return columns; }

// Exponentials of one row of scores, whose first `keys` keys are seen; the rest, up to `width`, becomes 0. Writes
// p = multiplier * exp(scale * score - largest) to `to`; returns log sum exp(scale * score), and 1 / sum in `inverse`.
template <class T>
HWY_INLINE float softmax_row(const float* scores, const float* multiplier, float scale, int64_t keys, int64_t width,
                             T* to, float* inverse) {
  const float least = std::numeric_limits<float>::lowest();
  V most = constant(least);
  int64_t i = 0;
  for (; i + lanes() <= keys; i += lanes()) most = hn::Max(most, load(scores + i, All{}));
  if (i < keys) most = hn::Max(most, keep(load(scores + i, All{}), First{keys - i}, least));
  const float largest = scale * max_of_lanes(most);
  V sum = hn::Zero(D());
  const auto exponentials = [&](int64_t at, auto part) {
    V p = exp(hn::MulSub(load(scores + at, All{}), constant(scale), constant(largest)));
    p = keep(p, part);
    sum = hn::Add(sum, p);
    if (multiplier != nullptr) p = hn::Mul(p, load(multiplier + at, All{}));
    store(p, to + at, All{});
  };
  for (i = 0; i + lanes() <= keys; i += lanes()) exponentials(i, All{});
  if (i < keys) exponentials(i, First{keys - i});
  for (i = keys; i < width; ++i) to[i] = T(0.0F);
  const float total = sum_of_lanes(sum);
  *inverse = 1 / total;
  return largest + std::log(total);
}

template <class T>
class Forward {
 public:
  explicit Forward(const AttentionProblem& p)
      : p_(p),
        qkv_(p.qkv.const_data_ptr<T>()),
        out_(p.out.mutable_data_ptr<T>()),
        log_sum_(p.log_sum.mutable_data_ptr<float>()),
        queries_(queries_of(p.length)),
        stride_(padded(p.length)),
        keys_(scratch<T, KeysTransposed>(stride_ * p.head_width)),
        values_(scratch<T, ValuesPacked>(even(p.length) * p.head_width)),
        scores_(scratch<float, Scores>(queries_ * stride_)),
        probabilities_(scratch<T, Probabilities>(queries_ * stride_)),
        multipliers_(scratch<float, Multipliers>(stride_ + kMaskPadding)),
        output_(scratch<float, Output>(queries_ * p.head_width)) {}

  // All query heads of one kv head of one sample.
  void run(int64_t sample, int64_t kv_head) {
    pack_transposed(qkv_ + p_.k_at(sample, kv_head), p_.row(), p_.length, p_.head_width, keys_, stride_);
    const T* v = qkv_ + p_.v_at(sample, kv_head);
    const T* values = right_operand(v, p_.row(), p_.length, p_.head_width, values_);
    for (int64_t head = kv_head * p_.group(); head < (kv_head + 1) * p_.group(); ++head)
      for (int64_t first = 0; first < p_.length; first += queries_) block(sample, head, first, values);
  }

 private:
  void block(int64_t sample, int64_t head, int64_t first, const T* values) {
    const int64_t count = std::min(queries_, p_.length - first), keys = first + count;
    const int64_t width = sizeof(T) == 2 ? even(keys) : keys, D = p_.head_width;
    tile_matmul(count, keys, D, qkv_ + p_.q_at(sample, head) + first * p_.row(), p_.row(), keys_, stride_, scores_,
                stride_, false);
    float inverse[kMostQueries];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t query = first + i;
      const float* multiplier = nullptr;
      if (p_.mask.threshold > 0)
        multiplier = dropout_multipliers(p_.mask, p_.dropout.samples[static_cast<size_t>(sample)],
                                         p_.element(head, query), query + 1, multipliers_);
      log_sum_[p_.log_sum_at(sample, head) + query] = softmax_row(
          scores_ + i * stride_, multiplier, p_.scale, query + 1, width, probabilities_ + i * stride_, &inverse[i]);
    }
    tile_matmul(count, D, width, probabilities_, stride_, values, right_stride(values, p_.row(), D), output_, D, false);
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
  T *keys_, *values_;
  float* scores_;
  T* probabilities_;
  float *multipliers_, *output_;
};

void attention_forward_heads(const AttentionProblem& p, int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T) {
    Forward<T> forward(p);
    for (int64_t i = begin; i < end; ++i) forward.run(i / p.kv_heads, i % p.kv_heads);
    tile_matmul_done(T(0.0F));
  };
  p.qkv.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
}

// One row of the backward: from scores and d_probabilities to the dropped probabilities and d_scores, in place.
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

// Rows of fp32 as operands: fp32 as they are; bf16 rounded, as rows (left operand) and as pairs of rows (right operand).
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

template <class T>
class Backward {
 public:
  explicit Backward(const AttentionProblem& p)
      : p_(p),
        D(p.head_width),
        queries_(queries_of(p.length)),
        stride_(padded(p.length)),
        qkv_(p.qkv.const_data_ptr<T>()),
        out_(p.out.const_data_ptr<T>()),
        d_out_(p.d_out.const_data_ptr<T>()),
        d_qkv_(p.d_qkv.mutable_data_ptr<T>()),
        log_sum_(p.log_sum.const_data_ptr<float>()),
        keys_t_(scratch<T, KeysTransposed>(stride_ * D)),
        values_t_(scratch<T, ValuesTransposed>(stride_ * D)),
        keys_(scratch<T, KeysPacked>(even(p.length) * D)),
        scores_(scratch<float, Scores>(queries_ * stride_)),
        d_probabilities_(scratch<float, DProbabilities>(queries_ * stride_)),
        probability_pairs_(scratch<T, ProbabilityPairs>(queries_ * stride_)),
        d_scores_(scratch<T, DScores>(queries_ * stride_)),
        d_score_pairs_(scratch<T, DScorePairs>(queries_ * stride_)),
        queries_t_(scratch<T, QueriesTransposed>(queries_ * D)),
        d_out_t_(scratch<T, DOutTransposed>(queries_ * D)),
        row_pairs_(scratch<T, RowPairs>(queries_ * D)),
        d_queries_(scratch<float, DQueries>(queries_ * D)),
        d_keys_t_(scratch<float, DKeysTransposed>(stride_ * D)),
        d_values_t_(scratch<float, DValuesTransposed>(stride_ * D)),
        transposed_(scratch<float, DTransposed>(p.length * D)),
        multipliers_(scratch<float, Multipliers>(stride_ + kMaskPadding)) {}

  void run(int64_t sample, int64_t kv_head) {
    const int64_t k_at = p_.k_at(sample, kv_head), v_at = p_.v_at(sample, kv_head);
    pack_transposed(qkv_ + k_at, p_.row(), p_.length, D, keys_t_, stride_);
    pack_transposed(qkv_ + v_at, p_.row(), p_.length, D, values_t_, stride_);
    const T* keys = right_operand(qkv_ + k_at, p_.row(), p_.length, D, keys_);
    std::memset(d_keys_t_, 0, static_cast<size_t>(stride_ * D) * sizeof(float));
    std::memset(d_values_t_, 0, static_cast<size_t>(stride_ * D) * sizeof(float));
    for (int64_t head = kv_head * p_.group(); head < (kv_head + 1) * p_.group(); ++head)
      for (int64_t first = 0; first < p_.length; first += queries_) block(sample, head, first, keys);
    write_transposed(d_keys_t_, d_qkv_ + k_at);
    write_transposed(d_values_t_, d_qkv_ + v_at);
  }

 private:
  void block(int64_t sample, int64_t head, int64_t first, const T* keys_right) {
    const int64_t count = std::min(queries_, p_.length - first), keys = first + count;
    const int64_t depth = sizeof(T) == 2 ? even(count) : count, width = sizeof(T) == 2 ? even(keys) : keys;
    const T* q = qkv_ + p_.q_at(sample, head) + first * p_.row();
    const int64_t out_at = p_.out_at(sample, head) + first * p_.out_row();
    const T *d_out = d_out_ + out_at, *out = out_ + out_at;
    tile_matmul(count, keys, D, q, p_.row(), keys_t_, stride_, scores_, stride_, false);
    tile_matmul(count, keys, D, d_out, p_.out_row(), values_t_, stride_, d_probabilities_, stride_, false);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t query = first + i;
      const float* multiplier = nullptr;
      if (p_.mask.threshold > 0)
        multiplier = dropout_multipliers(p_.mask, p_.dropout.samples[static_cast<size_t>(sample)],
                                         p_.element(head, query), query + 1, multipliers_);
      backward_row(scores_ + i * stride_, d_probabilities_ + i * stride_, multiplier, p_.scale,
                   log_sum_[p_.log_sum_at(sample, head) + query], dot(out + i * p_.out_row(), d_out + i * p_.out_row()),
                   query + 1, width);
    }
    const auto p = operands(scores_, stride_, count, width, static_cast<T*>(nullptr), probability_pairs_);
    const auto d_s = operands(d_probabilities_, stride_, count, width, d_scores_, d_score_pairs_);
    transpose_left(q, p_.row(), count, D, queries_t_, queries_, row_pairs_);
    transpose_left(d_out, p_.out_row(), count, D, d_out_t_, queries_, row_pairs_);
    tile_matmul(D, keys, depth, d_out_t_, queries_, p.right, stride_, d_values_t_, stride_, true);
    tile_matmul(D, keys, depth, queries_t_, queries_, d_s.right, stride_, d_keys_t_, stride_, true);
    tile_matmul(count, D, width, d_s.left, stride_, keys_right, right_stride(keys_right, p_.row(), D), d_queries_, D,
                false);
    for (int64_t i = 0; i < count; ++i) {
      T* to = d_qkv_ + p_.q_at(sample, head) + (first + i) * p_.row();
      for_vectors(D, [&](int64_t c, auto part) { store(load(d_queries_ + i * D + c, part), to + c, part); });
    }
  }

  // sum of out * d_out of one query: what the softmax subtracts from each d_p
  float dot(const T* a, const T* b) const {
    V sum = hn::Zero(hn::ScalableTag<float>());
    for_vectors(D, [&](int64_t c, auto part) { sum = hn::MulAdd(load(a + c, part), load(b + c, part), sum); });
    return sum_of_lanes(sum);
  }

  // to [length, D], with the stride of qkv, = transpose of in [D, length].
  void write_transposed(const float* in, T* to) {
    pack_transposed(in, stride_, D, p_.length, transposed_, D);
    for (int64_t t = 0; t < p_.length; ++t)
      for_vectors(
          D, [&](int64_t c, auto part) { store(load(transposed_ + t * D + c, part), to + t * p_.row() + c, part); });
  }

  const AttentionProblem& p_;
  int64_t D, queries_, stride_;
  const T *qkv_, *out_, *d_out_;
  T* d_qkv_;
  const float* log_sum_;
  T *keys_t_, *values_t_, *keys_;
  float *scores_, *d_probabilities_;
  T *probability_pairs_, *d_scores_, *d_score_pairs_, *queries_t_, *d_out_t_, *row_pairs_;
  float *d_queries_, *d_keys_t_, *d_values_t_, *transposed_, *multipliers_;
};

void attention_backward_heads(const AttentionProblem& p, int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T) {
    Backward<T> backward(p);
    for (int64_t i = begin; i < end; ++i) backward.run(i / p.kv_heads, i % p.kv_heads);
    tile_matmul_done(T(0.0F));
  };
  p.qkv.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
}

}  // namespace
}  // namespace partita::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita {
namespace {

HWY_EXPORT(attention_forward_heads);
HWY_EXPORT(attention_backward_heads);

void check_attention(const AttentionProblem& p, const at::Tensor& out, const at::Tensor& log_sum) {
  const at::ScalarType dtype = check_activation(p.qkv, "qkv");
  PARTITA_CHECK(p.kv_heads > 0 && p.heads % p.kv_heads == 0, "{} query heads do not divide among {} key/value heads",
                p.heads, p.kv_heads);
  check_tensor(p.qkv, "qkv", {p.samples, p.length, p.row()}, dtype);
  check_tensor(out, "out", {p.samples, p.length, p.out_row()}, dtype);
  check_tensor(log_sum, "log_sum", {p.samples, p.heads, p.length}, at::kFloat);
}

// bf16 products need AVX-512 and an even width; elsewhere bf16 is widened.
bool multiplies(const AttentionProblem& p) {
  if (p.qkv.scalar_type() == at::kFloat) return true;
  return p.head_width % 2 == 0 && (hwy::SupportedTargets() & HWY_AVX3) != 0;
}

at::Tensor widened(const at::Tensor& tensor) {
  at::Tensor wide = at::empty_like(tensor, tensor.options().dtype(at::kFloat));
  cast(wide.view({-1}), tensor.view({-1}));
  return wide;
}

}  // namespace

void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads heads, const Dropout& dropout,
                       at::Tensor first_keys) {
  AttentionProblem p(qkv, heads, dropout);
  check_attention(p, out, log_sum);
  if (first_keys.defined()) fail("attention among packed documents: not in this version");
  if (!multiplies(p)) {
    const at::Tensor wide_out = at::empty_like(out, out.options().dtype(at::kFloat));
    attention_forward(wide_out, log_sum, widened(qkv), heads, dropout, first_keys);
    return cast(out.view({-1}), wide_out.view({-1}));
  }
  p.out = out, p.log_sum = log_sum;
  at::parallel_for(0, p.samples * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(attention_forward_heads)(p, begin, end);
  });
}

void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv,
                        Heads heads, const Dropout& dropout, at::Tensor first_keys) {
  AttentionProblem p(qkv, heads, dropout);
  check_attention(p, out, log_sum);
  check_tensor(d_out, "d_out", out.sizes(), qkv.scalar_type());
  check_tensor(d_qkv, "d_qkv", qkv.sizes(), qkv.scalar_type());
  if (first_keys.defined()) fail("attention among packed documents: not in this version");
  if (!multiplies(p)) {
    const at::Tensor wide = at::empty_like(qkv, qkv.options().dtype(at::kFloat));
    attention_backward(wide, widened(d_out), widened(out), log_sum, widened(qkv), heads, dropout, first_keys);
    return cast(d_qkv.view({-1}), wide.view({-1}));
  }
  p.out = out, p.log_sum = log_sum, p.d_out = d_out, p.d_qkv = d_qkv;
  at::parallel_for(0, p.samples * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(attention_backward_heads)(p, begin, end);
  });
}

}  // namespace partita
#endif  // HWY_ONCE
