// Checks shared by norm forward and backward, and the mapping of rows to threads.
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

// Layer norm has a mean and, in forward, a bias; RMS norm has neither.
inline void check_statistics(const at::Tensor& mean, const at::Tensor& rstd, int64_t rows) {
  check_optional(mean, "mean", {rows}, at::kFloat);
  check_tensor(rstd, "rstd", {rows}, at::kFloat);
}
inline void check_norm_bias(const at::Tensor& norm_bias, const at::Tensor& mean, int64_t columns,
                            at::ScalarType dtype) {
  if (mean.defined()) return check_tensor(norm_bias, "norm_bias", {columns}, dtype);
  PARTITA_CHECK(!norm_bias.defined(), "a norm_bias without a mean: layer norm has both, RMS norm neither");
}

}  // namespace partita::internal::cuda
