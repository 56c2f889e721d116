#include "partita/ops/cuda/cross_entropy.h"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/softmax.cuh"
#include "partita/ops/cuda/sums.h"
#include "partita/ops/cuda/values.cuh"
#include "partita/ops/cuda/workspace.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {
namespace {

template <class T>
struct Statistics {
  float* out;  // [n, 3]
  T* logits;   // only read
  const int32_t* labels;
  int64_t columns, first_column;
};

// One row per block.
template <class T>
__global__ void __launch_bounds__(kRowThreads, 2) statistics_kernel(const Statistics<T> a) {
  const int64_t row = blockIdx.x;
  T* logits = a.logits + row * a.columns;
  const Softmax mine =
      softmax_of_thread(RowPacks<T>(logits, a.columns), [](int64_t, const Pack<T, RowPacks<T>::n>&) {});
  const auto [maximum, sum] = softmax_of_block(mine);
  if (threadIdx.x > 0) return;
  const int64_t label = a.labels[row] - a.first_column;
  const bool here = a.labels[row] != kIgnoredLabel && label >= 0 && label < a.columns;
  a.out[3 * row] = maximum;
  a.out[3 * row + 1] = static_cast<float>(sum);
  a.out[3 * row + 2] = here ? static_cast<float>(logits[label]) : 0;
}

// What the gradient of a row needs of the statistics.
struct Whole {
  float maximum, scale;  // the gradient is scale * exp(logit - maximum)
  float at_label;        // except here
};

struct Join {
  const float* statistics;  // [parts, n, 3]
  const int32_t* labels;
  const StepScalars* now;  // null: no gradient
  double* losses;          // [n]
  Whole* rows;             // [n]
  ValueError* error;
  int64_t parts, n, all_columns;
};

// One row per thread: the statistics of all parts, in their order, so that all ranks get the same bits.
__global__ void __launch_bounds__(kThreads) join_statistics_kernel(const Join a) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= a.n) return;
  const int32_t label = a.labels[row];
  if (label == kIgnoredLabel || !check_value(label, a.all_columns, ValueKind::label, row, 1, a.error)) {
    a.losses[row] = 0;
    return;
  }
  const float* of_row = a.statistics + 3 * row;
  const int64_t stride = 3 * a.n;
  float maximum = of_row[0];
  for (int64_t p = 1; p < a.parts; ++p) maximum = fmaxf(maximum, of_row[p * stride]);
  double sum = 0, at_label = 0;  // the label's logit is 0 but in one part
  for (int64_t p = 0; p < a.parts; ++p) {
    const float* part = of_row + p * stride;
    sum += part[1] * exp(static_cast<double>(part[0]) - maximum);
    at_label += part[2];
  }
  a.losses[row] = maximum + log(sum) - at_label;
  if (a.now == nullptr) return;
  const float weight = a.now->loss_weight;
  const double probability = exp(at_label - maximum) / sum;  // in double: it may be almost 1
  a.rows[row] = {maximum, static_cast<float>(weight / sum), static_cast<float>(weight * (probability - 1))};
}

template <class T>
struct Gradient {
  T* logits;
  const int32_t* labels;
  const Whole* rows;
  int64_t columns, first_column, all_columns;
};

// One row per block.
template <class T>
__global__ void __launch_bounds__(kRowThreads) split_gradient_kernel(const Gradient<T> a) {
  constexpr int n = RowPacks<T>::n;
  const int64_t row = blockIdx.x;
  const RowPacks<T> packs(a.logits + row * a.columns, a.columns);
  const int32_t label = a.labels[row];
  if (label < 0 || label >= a.all_columns) return packs.clear();  // ignored, or recorded as an error
  const Whole whole = a.rows[row];
  const int64_t label_at = packs.before + label - a.first_column;  // may be outside these columns
  for (int64_t p = threadIdx.x; p < packs.packs; p += kRowThreads) {
    float x[n];
    widen(packs.read(p), x);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x[i] = whole.scale * exp2_fast((x[i] - whole.maximum) * kLog2E);
      if (p * n + i == label_at) x[i] = whole.at_label;
    }
    packs.write(p, narrow<T>(x));
  }
}

}  // namespace

void softmax_statistics(at::Tensor statistics, at::Tensor logits, at::Tensor labels, int64_t first_column,
                        int64_t all_columns) {
  const auto [n, columns, dtype] = check_split_logits(logits, labels, first_column, all_columns, at::kCUDA);
  check_tensor(statistics, "statistics", {n, 3}, at::kFloat);
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>(n);
  with_type(dtype, [&, columns = columns]<class T>(T) {
    const Statistics<T> arguments{.out = statistics.mutable_data_ptr<float>(),
                                  .logits = logits.mutable_data_ptr<T>(),
                                  .labels = labels.const_data_ptr<int32_t>(),
                                  .columns = columns,
                                  .first_column = first_column};
    statistics_kernel<T><<<blocks, kRowThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(arguments);
  });
  PARTITA_LAUNCHED();
}

void cross_entropy_split(at::Tensor logits, at::Tensor labels, at::Tensor statistics, int64_t first_column,
                         int64_t all_columns, at::Tensor loss, const StepScalars* now, bool gradient) {
  const auto [n, columns, dtype] = check_split_logits(logits, labels, first_column, all_columns, at::kCUDA);
  const int64_t parts = check_split_statistics(statistics, n, at::kCUDA);
  check_tensor(loss, "loss", {1}, at::kDouble);
  PARTITA_CHECK(now != nullptr || !gradient, "the weight of the loss is missing");
  if (n == 0) return;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  std::byte* memory = workspace(n * static_cast<int64_t>(sizeof(double) + sizeof(Whole)));
  auto* losses = reinterpret_cast<double*>(memory);
  auto* rows = reinterpret_cast<Whole*>(losses + n);
  join_statistics_kernel<<<blocks_for(n), kThreads, 0, stream>>>({.statistics = statistics.const_data_ptr<float>(),
                                                                  .labels = labels.const_data_ptr<int32_t>(),
                                                                  .now = gradient ? now : nullptr,
                                                                  .losses = losses,
                                                                  .rows = rows,
                                                                  .error = value_error(),
                                                                  .parts = parts,
                                                                  .n = n,
                                                                  .all_columns = all_columns});
  PARTITA_LAUNCHED();
  if (gradient)
    with_type(dtype, [&, n = n, columns = columns]<class T>(T) {
      const Gradient<T> arguments{.logits = logits.mutable_data_ptr<T>(),
                                  .labels = labels.const_data_ptr<int32_t>(),
                                  .rows = rows,
                                  .columns = columns,
                                  .first_column = first_column,
                                  .all_columns = all_columns};
      split_gradient_kernel<T><<<static_cast<unsigned>(n), kRowThreads, 0, stream>>>(arguments);
    });
  PARTITA_LAUNCHED();
  add_partial_sums(losses, n, 1, loss.mutable_data_ptr<double>());
}

}  // namespace partita::internal::cuda
