#include "partita/ops/cross_entropy.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <vector>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/split_softmax.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/cross_entropy.h"
#endif
#include "partita/ops/device.h"
#include "partita/ops/operand_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/cross_entropy.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// Tags of the scratch buffers: exponentials of one row, and the maximum that each block of them is relative to.
struct Exponentials;
struct BlockMaxima;
constexpr int64_t kBlock = 1024;  // logits that stay in the L1 cache between the passes for maximum and sum

// Maximum and sum read the row from memory once: block by block, each exponential relative to the largest logit so far.
// The second pass scales it into the gradient.
template <class T>
class Row {
 public:
  Row(T* logits, int64_t V, bool gradient)
      : logits_(logits),
        V_(V),
        gradient_(gradient),
        exponentials_(room_for(logits, V, gradient)),
        maxima_(scratch<float, BlockMaxima>((V + kBlock - 1) / kBlock)) {}

  // Finds maximum() and sum().
  void measure() {
    for (int64_t begin = 0; begin < V_; begin += kBlock) {
      const int64_t count = std::min(kBlock, V_ - begin);
      const float before = maximum_;
      maximum_ = std::max(maximum_, largest(begin, count));
      maxima_[begin / kBlock] = maximum_;
      sum_ = sum_ * std::exp(static_cast<double>(before) - maximum_) + sum_of_block(begin, count);
    }
  }
  [[nodiscard]] float maximum() const { return maximum_; }
  [[nodiscard]] double sum() const { return sum_; }  // of exp(logit - maximum)

  // log sum exp(row) - row[label]
  double loss(int32_t label) {
    label_logit_ = static_cast<float>(logits_[label]);  // which measure() may overwrite
    measure();
    return maximum_ + std::log(sum_) - label_logit_;
  }

  // After loss(): overwrites the row with weight * (softmax - onehot).
  void scale(int32_t label, float weight) {
    const double at_label = std::exp(label_logit_ - static_cast<double>(maximum_)) / sum_;
    for (int64_t begin = 0; begin < V_; begin += kBlock) {
      const double factor = weight * std::exp(static_cast<double>(maxima_[begin / kBlock]) - maximum_) / sum_;
      const V scale = constant(static_cast<float>(factor));
      for_vectors(std::min(kBlock, V_ - begin), [&](int64_t i, auto part) {
        store(hn::Mul(load(exponentials_ + begin + i, part), scale), logits_ + begin + i, part);
      });
    }
    logits_[label] = static_cast<T>(static_cast<float>(weight * (at_label - 1)));
  }

 private:
  // fp32 logits are overwritten with their exponentials; half-precision ones would be rounded twice.
  static float* room_for(float* logits, int64_t, bool) { return logits; }
  static float* room_for(void*, int64_t V, bool gradient) {
    return gradient ? scratch<float, Exponentials>(V) : nullptr;
  }

  float largest(int64_t begin, int64_t count) const {
    const float least = std::numeric_limits<float>::lowest();
    V most = constant(least);
    for_vectors(
        count, [&](int64_t i, auto part) { most = hn::Max(most, keep(load(logits_ + begin + i, part), part, least)); });
    return max_of_lanes(most);
  }
  double sum_of_block(int64_t begin, int64_t count) {
    const V most = constant(maximum_);
    V sum = hn::Zero(D());
    for_vectors(count, [&](int64_t i, auto part) {
      const V e = exp(hn::Sub(load(logits_ + begin + i, part), most));
      sum = hn::Add(sum, keep(e, part));
      if (gradient_) store(e, exponentials_ + begin + i, part);
    });
    return sum_of_lanes(sum);
  }

  T* logits_;
  int64_t V_;
  bool gradient_;
  float *exponentials_, *maxima_;
  float maximum_ = std::numeric_limits<float>::lowest();
  double sum_ = 0, label_logit_ = 0;
};

template <class T>
void rows_as(T* logits, int64_t V, const int32_t* labels, float weight, bool gradient, double* losses, int64_t begin,
             int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    if (labels[r] == kIgnoredLabel) {
      losses[r] = 0;
      if (gradient) std::memset(static_cast<void*>(logits + r * V), 0, static_cast<size_t>(V) * sizeof(T));
      continue;
    }
    Row<T> row(logits + r * V, V, gradient);
    losses[r] = row.loss(labels[r]);
    if (gradient) row.scale(labels[r], weight);
  }
}

void cross_entropy_rows(const at::Tensor& logits, const int32_t* labels, float weight, bool gradient, double* losses,
                        int64_t begin, int64_t end) {
  with_type_of(logits, [&]<class T>(T) {
    rows_as(logits.mutable_data_ptr<T>(), logits.size(1), labels, weight, gradient, losses, begin, end);
  });
}

void statistics_rows(const at::Tensor& statistics, const at::Tensor& logits, const int32_t* labels,
                     int64_t first_column, int64_t begin, int64_t end) {
  const int64_t columns = logits.size(1);
  with_type_of(logits, [&]<class T>(T) {
    for (int64_t r = begin; r < end; ++r) {
      T* logit = logits.mutable_data_ptr<T>() + r * columns;  // only read
      Row<T> row(logit, columns, false);
      row.measure();
      const int64_t label = labels[r] - first_column;
      float* out = statistics.mutable_data_ptr<float>() + 3 * r;
      out[0] = row.maximum();
      out[1] = static_cast<float>(row.sum());
      out[2] = labels[r] != kIgnoredLabel && label >= 0 && label < columns ? static_cast<float>(logit[label]) : 0;
    }
  });
}

// Overwrites rows of logits with weight * (softmax - onehot).
void split_gradient_rows(const at::Tensor& logits, const int32_t* labels, const SplitSoftmax* rows,
                         int64_t first_column, float weight, int64_t begin, int64_t end) {
  const int64_t columns = logits.size(1);
  with_type_of(logits, [&]<class T>(T) {
    for (int64_t r = begin; r < end; ++r) {
      T* logit = logits.mutable_data_ptr<T>() + r * columns;
      if (labels[r] == kIgnoredLabel) {
        std::memset(static_cast<void*>(logit), 0, static_cast<size_t>(columns) * sizeof(T));
        continue;
      }
      const V most = constant(rows[r].maximum), scale = constant(static_cast<float>(weight / rows[r].sum));
      for_vectors(columns, [&](int64_t i, auto part) {
        store(hn::Mul(exp(hn::Sub(load(logit + i, part), most)), scale), logit + i, part);
      });
      const int64_t label = labels[r] - first_column;
      if (label >= 0 && label < columns)
        logit[label] = static_cast<T>(static_cast<float>(weight * (rows[r].label_probability() - 1)));
    }
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(cross_entropy_rows);
HWY_EXPORT(statistics_rows);
HWY_EXPORT(split_gradient_rows);

void check_labels(const at::Tensor& labels, int64_t vocabulary) {
  const int32_t* label = labels.const_data_ptr<int32_t>();
  for (int64_t r = 0; r < labels.numel(); ++r)
    if (label[r] != kIgnoredLabel && (label[r] < 0 || label[r] >= vocabulary))
      fail("label {} of row {} is outside 0..{}: the data does not belong to this model", label[r], r, vocabulary - 1);
}

// In the order of rows, whatever thread computed each.
void add_losses(const at::Tensor& loss, const std::vector<double>& losses) {
  double sum = 0;
  for (double l : losses) sum += l;
  *loss.mutable_data_ptr<double>() += sum;
}

}  // namespace

void cross_entropy(at::Tensor logits, at::Tensor labels, at::Tensor loss, const StepScalars* now, bool gradient) {
  PARTITA_DISPATCH(logits, cross_entropy(logits, labels, loss, now, gradient));
  const at::ScalarType dtype = check_activation(logits, "logits");
  const int64_t n = logits.size(0), V = logits.size(1);
  check_tensor(logits, "logits", {n, V}, dtype);
  check_tensor(labels, "labels", {n}, at::kInt);
  check_tensor(loss, "loss", {1}, at::kDouble);
  const float weight = gradient ? now->loss_weight : 0;
  check_labels(labels, V);
  const int32_t* label = labels.const_data_ptr<int32_t>();
  std::vector<double> losses(static_cast<size_t>(n));
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(logits, label, weight, gradient, losses.data(), begin, end);
  });
  add_losses(loss, losses);
}

void softmax_statistics(at::Tensor statistics, at::Tensor logits, at::Tensor labels, int64_t first_column,
                        int64_t all_columns) {
  PARTITA_DISPATCH(logits, softmax_statistics(statistics, logits, labels, first_column, all_columns));
  const int64_t n = check_split_logits(logits, labels, first_column, all_columns, at::kCPU).rows;
  check_tensor(statistics, "statistics", {n, 3}, at::kFloat);
  check_labels(labels, all_columns);
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(statistics_rows)
    (statistics, logits, labels.const_data_ptr<int32_t>(), first_column, begin, end);
  });
}

void cross_entropy_split(at::Tensor logits, at::Tensor labels, at::Tensor statistics, int64_t first_column,
                         int64_t all_columns, at::Tensor loss, const StepScalars* now, bool gradient) {
  PARTITA_DISPATCH(logits,
                   cross_entropy_split(logits, labels, statistics, first_column, all_columns, loss, now, gradient));
  const int64_t n = check_split_logits(logits, labels, first_column, all_columns, at::kCPU).rows;
  const int64_t parts = check_split_statistics(statistics, n, at::kCPU);
  check_tensor(loss, "loss", {1}, at::kDouble);
  PARTITA_CHECK(now != nullptr || !gradient, "the weight of the loss is missing");
  check_labels(labels, all_columns);
  const auto* label = labels.const_data_ptr<int32_t>();
  const auto* by_part = statistics.const_data_ptr<float>();
  std::vector<SplitSoftmax> rows(static_cast<size_t>(n));
  std::vector<double> losses(static_cast<size_t>(n));
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    // Here rather than in a kernel: no instruction set may round it in its own way.
    for (int64_t r = begin; r < end; ++r) {
      if (label[r] == kIgnoredLabel) continue;
      const auto at = static_cast<size_t>(r);
      rows[at] = SplitSoftmax(by_part, parts, n, r);
      losses[at] = rows[at].loss();
    }
    if (gradient) HWY_DYNAMIC_DISPATCH(split_gradient_rows)
    (logits, label, rows.data(), first_column, now->loss_weight, begin, end);
  });
  add_losses(loss, losses);
}

}  // namespace partita::internal
#endif  // HWY_ONCE
