#include "partita/comm/ordered_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <type_traits>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// Accumulators of a block stay in the L1 cache, so that each row is read once and the result written once.
constexpr int64_t kBlock = 2048;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, c10::BFloat16> || std::is_same_v<T, c10::Half>, float, T>;

template <class T>
[[nodiscard]] T add(T a, T b) {
  // Signed integers wrap around, as in torch.
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

template <class T>
[[nodiscard]] T larger(T a, T b) {
  return b > a || b != b ? b : a;  // NOLINT(misc-redundant-expression): b != b is true for NaN
}

// One block of elements. `count` is a compile-time constant for full blocks, so that the loops are vectorized.
template <class To, class From, class Count>
void reduce_block(Reduce kind, To* out, std::span<const void* const> rows, int64_t begin, Count count) {
  using Sum = Wide<From>;
  alignas(64) Sum sum[kBlock];
  for (size_t r = 0; r < rows.size(); ++r) {
    const From* row = static_cast<const From*>(rows[r]) + begin;
    if (r == 0)
      for (int64_t i = 0; i < count; ++i) sum[i] = static_cast<Sum>(row[i]);
    else if (kind == Reduce::sum)
      for (int64_t i = 0; i < count; ++i) sum[i] = add(sum[i], static_cast<Sum>(row[i]));
    else
      for (int64_t i = 0; i < count; ++i) sum[i] = larger(sum[i], static_cast<Sum>(row[i]));
  }
  for (int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<To>(sum[i]);
}

template <class To, class From>
void reduce(Reduce kind, void* out, std::span<const void* const> rows, int64_t n) {
  To* to = static_cast<To*>(out);
  int64_t begin = 0;
  for (; begin + kBlock <= n; begin += kBlock)
    reduce_block<To, From>(kind, to, rows, begin, std::integral_constant<int64_t, kBlock>());
  reduce_block<To, From>(kind, to, rows, begin, n - begin);
}

using Function = void (*)(Reduce, void*, std::span<const void* const>, int64_t);

Function function(c10::ScalarType to, c10::ScalarType from) {
  using enum c10::ScalarType;
  if (to == Float && from == BFloat16) return reduce<float, c10::BFloat16>;
  if (to == Float && from == Half) return reduce<float, c10::Half>;
  if (to != from) return nullptr;
  switch (from) {
    case Float:
      return reduce<float, float>;
    case Double:
      return reduce<double, double>;
    case BFloat16:
      return reduce<c10::BFloat16, c10::BFloat16>;
    case Half:
      return reduce<c10::Half, c10::Half>;
    case Int:
      return reduce<int32_t, int32_t>;
    case Long:
      return reduce<int64_t, int64_t>;
    case Byte:
      return reduce<uint8_t, uint8_t>;
    default:
      return nullptr;
  }
}

}  // namespace

void check_reducible(const std::string& call, c10::ScalarType to, c10::ScalarType from) {
  if (function(to, from) == nullptr)
    fail(
        "{}: no reduction from {} to {}: expected equal dtypes among fp32, fp64, bf16, fp16, int32, int64, uint8, or "
        "fp32 from bf16 or fp16",
        call, c10::toString(from), c10::toString(to));
}

void reduce_rows(Reduce kind, c10::ScalarType to, void* out, c10::ScalarType from, std::span<const void* const> rows,
                 int64_t n) {
  const Function call = function(to, from);
  PARTITA_CHECK(call != nullptr && !rows.empty());
  call(kind, out, rows, n);
}

}  // namespace partita::internal
