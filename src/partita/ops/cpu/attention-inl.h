// Shared code of the attention kernels. Queries are processed in blocks, each with all keys visible to any of its
// queries: the scores of a block fit in cache, so the softmax needs no running maximum, and masked scores are computed
// only at the edges of a block.
#if defined(PARTITA_OPS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_ATTENTION_INL_H_
#undef PARTITA_OPS_CPU_ATTENTION_INL_H_
#else
#define PARTITA_OPS_CPU_ATTENTION_INL_H_
#endif

#include <cmath>
#include <limits>
#include <type_traits>

#include "partita/ops/cpu/attention_problem.h"
#include "partita/ops/cpu/simd-inl.h"
#include "partita/ops/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

HWY_INLINE int64_t even(int64_t n) { return n + n % 2; }

// Score rows are padded, so that whole vectors may be read and written past the last key.
HWY_INLINE int64_t padded(int64_t keys) { return (keys + 31) / 16 * 16; }

// The keys read by a block of queries, from key `begin` on: the columns of its scores. begin is a multiple of the block
// size, so that matmuls have few distinct shapes (each is compiled once) and pairs of keys stay together.
struct KeyRange {
  KeyRange(const AttentionProblem& p, int64_t sample, int64_t first_query, int64_t queries, int64_t block)
      : begin(p.first_key(sample, first_query) / block * block),
        count(p.position(first_query + queries - 1) + 1 - begin) {}
  int64_t begin, count;
};

// Calls f(T{}, C{}): T is the storage type, C the type in which tiles are multiplied.
template <class F>
HWY_INLINE void with_types_of(const AttentionProblem& p, F&& f) {
  if (p.qkv.scalar_type() == at::kFloat) return f(float{}, float{});
  if (p.qkv.scalar_type() == at::kHalf) return f(at::Half{}, float{});
  p.has_bf16_tiles() ? f(at::BFloat16{}, at::BFloat16{}) : f(at::BFloat16{}, float{});
}

// fp32 elements needed to convert rows of T to C; none if T is C.
template <class T, class C>
HWY_INLINE int64_t widened_size(int64_t elements) {
  return std::is_same_v<T, C> ? 0 : elements;
}

// `count` rows as C: unchanged, or widened into `place`.
template <class C, class T>
HWY_INLINE Rows<C> as_operand(Rows<T> rows, int64_t count, int64_t width, float* place) {
  if constexpr (std::is_same_v<T, C>) {
    return rows;
  } else {
    for (int64_t r = 0; r < count; ++r)
      for_vectors(width, [&](int64_t i, auto part) {
        store(load(rows.first + r * rows.stride + i, part), place + r * width + i, part);
      });
    return {place, width};
  }
}

// Rows of a right operand [rows, columns]: fp32 unchanged, bf16 packed in pairs into `place`.
HWY_INLINE const float* right_operand(const float* in, int64_t, int64_t, int64_t, float*) { return in; }
HWY_INLINE const at::BFloat16* right_operand(const at::BFloat16* in, int64_t ld, int64_t rows, int64_t columns,
                                             at::BFloat16* place) {
  pack_pairs(in, ld, rows, columns, place);
  return place;
}
HWY_INLINE int64_t right_stride(const float*, int64_t ld, int64_t) { return ld; }
HWY_INLINE int64_t right_stride(const at::BFloat16*, int64_t, int64_t columns) { return columns; }
// The operand from column n on; n is even.
HWY_INLINE const float* from_column(const float* right, int64_t n) { return right + n; }
HWY_INLINE const at::BFloat16* from_column(const at::BFloat16* right, int64_t n) { return right + 2 * n; }

// Softmax of one row of scores whose first `keys` keys are visible; the rest, up to `width`, becomes 0. Writes p =
// multiplier * exp(scale * score - largest) to `to`; returns log sum exp(scale * score), and 1 / sum in `inverse`.
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

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_ATTENTION_INL_H_
