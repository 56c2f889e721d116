// Random divisions of rows, columns or heads into parts, as ranks divide them.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace partita::internal::reference {

struct Part {
  int64_t begin, count;
  // Its rows of a tensor, in the tensor's memory; undefined stays undefined.
  [[nodiscard]] at::Tensor of(const at::Tensor& t) const { return t.defined() ? t.narrow(0, begin, count) : t; }
};

// 0..total-1 in `count` parts, each of at least `least`.
inline std::vector<Part> random_parts(int64_t total, int64_t count, std::mt19937_64& random, int64_t least = 0) {
  std::vector<int64_t> cuts = {0, total - count * least};
  for (int64_t i = 1; i < count; ++i)
    cuts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(total - count * least + 1)));
  std::ranges::sort(cuts);
  std::vector<Part> parts;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    parts.push_back({cuts[at] + i * least, cuts[at + 1] - cuts[at] + least});
  }
  return parts;
}

inline int64_t random_between(int64_t least, int64_t most, std::mt19937_64& random) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}

}  // namespace partita::internal::reference
