#include "partita/ops/cross_entropy.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

const int64_t kShapes[][2] = {{0, 5}, {1, 1}, {3, 7}, {5, 16}, {9, 1024}, {4, 1025}, {3, 5003}};

at::Tensor labels_of(int64_t n, int64_t V) {
  const at::Tensor labels = integers({n}, V, 2);
  if (n > 2) labels.mutable_data_ptr<int32_t>()[1] = kIgnoredLabel;
  return labels;
}

double loss_of(const at::Tensor& logits, const at::Tensor& labels, float weight, bool gradient) {
  const StepScalars now{.loss_weight = weight};
  const at::Tensor loss = at::zeros({1}, at::kDouble);
  cross_entropy(logits, labels, loss, &now, gradient);
  return loss.item<double>();
}

TEST(CrossEntropy, LossAndGradientAreTheDefinition) {
  for (at::ScalarType dtype : kDTypes)
    for (const auto& [n, V] : kShapes)
      for (const double spread : {1.0, 20.0}) {
        SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << n << " x " << V << " spread " << spread);
        const at::Tensor logits = random({n, V}, dtype, 1, 3, spread), labels = labels_of(n, V);
        const Values x = values(logits), label = values(labels);
        const double weight = 0.125;
        Values gradient(x.size());
        double loss = 0;
        for (size_t r = 0; r < static_cast<size_t>(n); ++r) {
          if (label[r] < 0) continue;
          const double* row = x.data() + r * static_cast<size_t>(V);
          double most = row[0], sum = 0;
          for (int64_t i = 0; i < V; ++i) most = std::max(most, row[i]);
          for (int64_t i = 0; i < V; ++i) sum += std::exp(row[i] - most);
          loss += most + std::log(sum) - row[static_cast<size_t>(label[r])];
          for (size_t i = 0; i < static_cast<size_t>(V); ++i)
            gradient[r * static_cast<size_t>(V) + i] =
                weight * (std::exp(row[i] - most) / sum - (i == static_cast<size_t>(label[r])));
        }
        const at::Tensor before = logits.clone();
        EXPECT_NEAR(loss_of(logits, labels, 0, false), loss, 1e-6 * std::abs(loss) + 1e-12);
        EXPECT_TRUE(same_bits(logits, before));
        EXPECT_NEAR(loss_of(logits, labels, 0.125F, true), loss, 1e-6 * std::abs(loss) + 1e-12);
        expect_close(logits, gradient, tolerance(dtype));
        if (n > 2) {
          EXPECT_EQ(values(logits.select(0, 1)), Values(static_cast<size_t>(V)));
        }
      }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflowAndNanComesThrough) {
  for (at::ScalarType dtype : kDTypes) {
    const double large = dtype == at::kHalf ? 6e4 : 1e30;
    const at::Tensor logits = at::full({1, 3000}, -large, at::TensorOptions(dtype)), labels = integers({1}, 1, 1);
    logits.select(1, 0).fill_(large);
    EXPECT_EQ(loss_of(logits.clone(), labels, 1, true), 0);
    logits.select(1, 2000).fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(std::isnan(loss_of(logits, labels, 1, true)));
  }
}

TEST(CrossEntropy, ThreadsDoNotChangeABit) {
  const at::Tensor logits = random({301, 1100}, at::kFloat, 1), labels = labels_of(301, 1100);
  const auto run = [&] { return loss_of(logits.clone(), labels, 1, true); };
  EXPECT_EQ(with_threads(1, run), with_threads(2, run));
}

TEST(CrossEntropy, LabelsOutsideTheVocabularyAreNamedAndNothingIsWritten) {
  for (const int32_t bad : {-2, 7}) {
    const at::Tensor logits = random({3, 7}, at::kFloat, 1), before = logits.clone(), labels = integers({3}, 7, 2);
    labels.mutable_data_ptr<int32_t>()[2] = bad;
    EXPECT_THAT([&] { loss_of(logits, labels, 1, true); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("label " + std::to_string(bad) + " of row 2")));
    EXPECT_TRUE(same_bits(logits, before));
  }
}

}  // namespace
}  // namespace partita::internal
