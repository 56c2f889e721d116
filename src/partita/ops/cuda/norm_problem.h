// The mapping of the rows of a norm to threads.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/cuda/check.h"
#include "partita/ops/cuda/launch.h"

namespace partita::internal::cuda {

inline constexpr int kMostNormThreads = 512;

// A block holds one row in registers: each thread has `packs` packs of 8 elements, at a stride of `threads` * 8.
struct RowLayout {
  int threads, packs;  // packs: 1, 2 or 4
};

// One pack per thread, as long as at least two blocks fit in a multiprocessor's registers.
[[nodiscard]] inline RowLayout row_layout(int64_t C, bool whole) {
  const int64_t packs = std::max<int64_t>(1, divide_up(C, 8));
  PARTITA_CHECK(packs <= 4 * kMostNormThreads, "norm of {} channels: at most {} are supported on a device", C,
                4 * 8 * kMostNormThreads);
  const int each = !whole ? 4 : packs <= kMostNormThreads ? 1 : packs <= 2 * kMostNormThreads ? 2 : 4;
  const int64_t threads = divide_up(packs, each);
  return {.threads = static_cast<int>(divide_up(threads, 32) * 32), .packs = each};
}

// Calls f(std::integral_constant<int, packs>, std::bool_constant<whole>). Rows that are not whole packs are rare and
// use a single layout.
template <class F>
void with_layout(const RowLayout& form, bool whole, F&& f) {
  if (!whole) return f(std::integral_constant<int, 4>{}, std::false_type{});
  if (form.packs == 1) return f(std::integral_constant<int, 1>{}, std::true_type{});
  if (form.packs == 2) return f(std::integral_constant<int, 2>{}, std::true_type{});
  f(std::integral_constant<int, 4>{}, std::true_type{});
}

}  // namespace partita::internal::cuda
