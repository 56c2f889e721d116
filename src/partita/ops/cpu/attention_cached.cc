#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "partita/ops/attention.h"
#include "partita/ops/cpu/attention_problem.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/attention.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/attention_cached.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/attention-inl.h"
#include "partita/ops/cpu/dtype-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

struct Queries;
struct Scores;
struct Output;
struct Inverses;

// Queries per block, which share one read of the keys.
constexpr int64_t kQueries = 16;

// For few queries: packing keys and values would cost an extra pass over them. A block of keys, then a block of values,
// stays in the L1 cache for all queries of a kv head.
template <class T>
class Few {
 public:
  explicit Few(const AttentionProblem& p)
      : p_(p),
        D(p.head_width),
        stride_(padded(p.past + p.length)),
        queries_(scratch<float, Queries>(p.group() * kQueries * D)),
        scores_(scratch<float, Scores>(p.group() * kQueries * stride_)),
        output_(scratch<float, Output>(p.group() * kQueries * D)),
        inverses_(scratch<float, Inverses>(p.group() * kQueries)) {}

  // Processes all query heads of one kv head of one sample.
  void run(int64_t sample, int64_t kv_head) {
    for (int64_t first = 0; first < p_.length; first += kQueries)
      block(sample, kv_head, first, std::min(kQueries, p_.length - first));
  }

 private:
  // Row r of scores belongs to query first + r % count of head r / count in the group.
  void block(int64_t sample, int64_t kv_head, int64_t first, int64_t count) {
    const Rows<T> keys = p_.keys_of<T>(sample, kv_head), values = p_.values_of<T>(sample, kv_head);
    const int64_t rows = p_.group() * count;
    const auto head = [&](int64_t r) { return kv_head * p_.group() + r / count; };
    const auto query = [&](int64_t r) { return first + r % count; };
    const auto seen = [&](int64_t r) { return p_.past + query(r) + 1; };
    // Calls f(row, begin, end) over all keys visible to each row, one block of keys at a time.
    const auto for_keys = [&](auto&& f) {
      constexpr int64_t kKeys = 64;
      for (int64_t begin = 0; begin < p_.past + first + count; begin += kKeys)
        for (int64_t r = 0; r < rows; ++r) f(r, begin, std::min(begin + kKeys, seen(r)));
    };
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = p_.qkv.const_data_ptr<T>() + p_.q_at(sample, head(r)) + query(r) * p_.row();
      for_vectors(D, [&](int64_t c, auto part) { store(load(from + c, part), queries_ + r * D + c, part); });
    }
    for_keys([&](int64_t r, int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        scores_[r * stride_ + k] = dot(queries_ + r * D, keys.first + k * keys.stride);
    });
    std::fill_n(output_, rows * D, 0.0F);
    for (int64_t r = 0; r < rows; ++r)
      (void)softmax_row(scores_ + r * stride_, nullptr, p_.scale, seen(r), seen(r), scores_ + r * stride_,
                        inverses_ + r);
    for_keys([&](int64_t r, int64_t begin, int64_t end) {
      for_vectors(D, [&](int64_t c, auto part) {
        V sum = load(output_ + r * D + c, part);
        for (int64_t k = begin; k < end; ++k)
          sum = hn::MulAdd(constant(scores_[r * stride_ + k]), load(values.first + k * values.stride + c, part), sum);
        store(sum, output_ + r * D + c, part);
      });
    });
    for (int64_t r = 0; r < rows; ++r) {
      T* to = p_.out.mutable_data_ptr<T>() + p_.out_at(sample, head(r)) + query(r) * p_.out_row();
      const V factor = constant(inverses_[r]);
      for_vectors(D,
                  [&](int64_t c, auto part) { store(hn::Mul(load(output_ + r * D + c, part), factor), to + c, part); });
    }
  }

  float dot(const float* a, const T* b) const {
    V sum = hn::Zero(hn::ScalableTag<float>());
    for_vectors(D, [&](int64_t c, auto part) { sum = hn::MulAdd(load(a + c, part), load(b + c, part), sum); });
    return sum_of_lanes(sum);
  }

  const AttentionProblem& p_;
  int64_t D, stride_;
  float *queries_, *scores_, *output_, *inverses_;
};

void attention_few_heads(const AttentionProblem& p, int64_t begin, int64_t end) {
  with_type_of(p.qkv, [&]<class T>(T) {
    Few<T> few(p);
    for (int64_t i = begin; i < end; ++i) few.run(i / p.kv_heads, i % p.kv_heads);
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(attention_few_heads);

// From this many queries on, packing keys and values for tile matmuls pays.
constexpr int64_t kManyQueries = 16;
// Minimum number of products per thread.
constexpr int64_t kLeastProducts = 65536;

// Appends qkv's keys and values after the `past` cached ones.
void append(const AttentionProblem& p) {
  const auto bytes = static_cast<size_t>(p.qkv.element_size());
  const auto* from = static_cast<const std::byte*>(p.qkv.const_data_ptr());
  auto* keys = static_cast<std::byte*>(p.keys.mutable_data_ptr());
  auto* values = static_cast<std::byte*>(p.values.mutable_data_ptr());
  const size_t vector = static_cast<size_t>(p.head_width) * bytes;
  for (int64_t s = 0; s < p.samples; ++s)
    for (int64_t h = 0; h < p.kv_heads; ++h)
      for (int64_t t = 0; t < p.length; ++t) {
        const size_t to = static_cast<size_t>(p.kept_at(s, h) + (p.past + t) * p.head_width) * bytes;
        std::memcpy(keys + to, from + static_cast<size_t>(p.k_at(s, h) + t * p.row()) * bytes, vector);
        std::memcpy(values + to, from + static_cast<size_t>(p.v_at(s, h) + t * p.row()) * bytes, vector);
      }
}

}  // namespace

void attention_cached(at::Tensor out, at::Tensor qkv, at::Tensor keys, at::Tensor values, int64_t past, Heads heads) {
  PARTITA_DISPATCH(qkv, attention_cached(out, qkv, keys, values, past, heads));
  AttentionProblem p(out, {}, qkv, heads, {}, {});
  PARTITA_CHECK(keys.defined() && keys.dim() == 4, "keys are missing or have not 4 dimensions");
  const int64_t capacity = keys.size(2);
  check_tensor(keys, "keys", {p.samples, p.kv_heads, capacity, p.head_width}, qkv.scalar_type());
  check_tensor(values, "values", {p.samples, p.kv_heads, capacity, p.head_width}, qkv.scalar_type());
  PARTITA_CHECK(past >= 0 && past + p.length <= capacity, "{} positions behind {} in memory for {}", p.length, past,
                capacity);
  p.keys = keys, p.values = values, p.past = past;
  append(p);
  if (p.length >= kManyQueries) return past == 0 ? attention_forward(out, {}, qkv, heads, {}) : attention_tiles(p);
  const int64_t products = (past + p.length) * p.length * p.group() * p.head_width;
  const int64_t heads_a_thread = std::max<int64_t>(1, kLeastProducts / std::max<int64_t>(1, products));
  at::parallel_for(0, p.samples * p.kv_heads, heads_a_thread, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(attention_few_heads)(p, begin, end);
  });
}

}  // namespace partita::internal
#endif  // HWY_ONCE
