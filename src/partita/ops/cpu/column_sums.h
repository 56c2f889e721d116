// Column sums over many rows that are independent of the number of threads and need no rows x columns temporary: rows
// are split into chunks that depend on the row count alone, each with a partial sum, and the partial sums are added in
// order.
//
//   ColumnSums<2> sums(rows, columns);
//   at::parallel_for(0, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
//     for (int64_t c = begin; c < end; ++c) kernel(sums.first_row(c), sums.first_row(c + 1), sums.clear(c));
//   });
//   sums.add_to(0, d_weight);
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "partita/ops/cpu/scratch.h"
#include "partita/ops/target.h"

namespace partita::internal {

// At least kLeastRows rows per chunk, and at most kMostChunks chunks.
struct RowChunks {
  static constexpr int64_t kLeastRows = 32, kMostChunks = 64;
  explicit RowChunks(int64_t row_count)
      : rows(row_count), each(std::max(kLeastRows, (row_count + kMostChunks - 1) / kMostChunks)) {}
  [[nodiscard]] int64_t count() const { return (rows + each - 1) / each; }
  [[nodiscard]] int64_t first(int64_t chunk) const { return std::min(rows, chunk * each); }

  int64_t rows, each;
};

template <int kVectors>
class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t columns)
      : chunks_(rows), columns_(columns), partial_(scratch<float, ColumnSums>(chunks_.count() * kVectors * columns)) {}

  [[nodiscard]] int64_t chunks() const { return chunks_.count(); }
  [[nodiscard]] int64_t first_row(int64_t chunk) const { return chunks_.first(chunk); }
  // Zeroed partial sums [kVectors, columns] of one chunk, for the kernel to accumulate into.
  [[nodiscard]] float* clear(int64_t chunk) const {
    float* sums = partial_ + chunk * kVectors * columns_;
    std::memset(sums, 0, static_cast<size_t>(kVectors * columns_) * sizeof(float));
    return sums;
  }

  // target [columns] fp32 (+)= total of the partial sums.
  void add_to(int vector, const Target& target) const {
    if (!target.gradient.defined()) return;
    float* out = target.gradient.mutable_data_ptr<float>();
    at::parallel_for(0, columns_, 2048, [&](int64_t begin, int64_t end) {
      if (!target.accumulate) std::fill(out + begin, out + end, 0.0F);
      for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
        const float* in = partial_ + (chunk * kVectors + vector) * columns_;
        for (int64_t i = begin; i < end; ++i) out[i] += in[i];
      }
    });
  }

 private:
  RowChunks chunks_;
  int64_t columns_;
  float* partial_;
};

}  // namespace partita::internal
