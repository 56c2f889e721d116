// Cross-entropy of logits whose columns are divided among ranks, against the one of whole logits.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <vector>

#include "partita/base/error.h"
#include "partita/ops/cross_entropy.h"
#include "tests/ops/parts.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

constexpr float kWeight = 0.125F;
const StepScalars kNow{.loss_weight = kWeight};

at::Tensor columns_of(const at::Tensor& logits, const Part& part) {
  return logits.narrow(1, part.begin, part.count).clone(at::MemoryFormat::Contiguous);
}

at::Tensor statistics_of(const at::Tensor& logits, const at::Tensor& labels, const std::vector<Part>& parts) {
  const at::Tensor all = nan({static_cast<int64_t>(parts.size()), logits.size(0), 3});
  for (size_t p = 0; p < parts.size(); ++p)
    softmax_statistics(all.select(0, static_cast<int64_t>(p)), columns_of(logits, parts[p]), labels, parts[p].begin,
                       logits.size(1));
  return all;
}

struct Computed {
  at::Tensor gradient;         // of all columns
  std::vector<double> losses;  // of every part, on top of 0.5
};

Computed split(const at::Tensor& logits, const at::Tensor& labels, const std::vector<Part>& parts, bool gradient) {
  const at::Tensor statistics = statistics_of(logits, labels, parts);
  Computed computed;
  std::vector<at::Tensor> gradients;
  for (const Part& part : parts) {
    gradients.push_back(columns_of(logits, part));
    const at::Tensor loss = at::full({1}, 0.5, at::TensorOptions(at::kDouble));
    cross_entropy_split(gradients.back(), labels, statistics, part.begin, logits.size(1), loss,
                        gradient ? &kNow : nullptr, gradient);
    computed.losses.push_back(loss.item<double>());
  }
  computed.gradient = at::cat(gradients, 1);
  return computed;
}

struct Case {
  int64_t n, V, ranks;
};

Case random_case(std::mt19937_64& random_numbers) {
  const int64_t ranks = random_between(1, 4, random_numbers);
  return {random_between(0, 9, random_numbers), random_between(ranks, 3000, random_numbers), ranks};
}

void expect_as_whole(const at::Tensor& logits, const at::Tensor& labels, const std::vector<Part>& parts) {
  const at::ScalarType dtype = logits.scalar_type();
  const at::Tensor whole = logits.clone(), loss = at::full({1}, 0.5, at::TensorOptions(at::kDouble));
  cross_entropy(whole, labels, loss, &kNow, true);
  const Computed computed = split(logits, labels, parts, true), alone = split(logits, labels, parts, false);
  const double expected = loss.item<double>();
  for (double l : computed.losses) {
    EXPECT_NEAR(l, expected, 1e-6 * std::abs(expected));
    EXPECT_EQ(l, computed.losses[0]);
  }
  EXPECT_EQ(alone.losses, computed.losses);
  EXPECT_TRUE(same_bits(alone.gradient, logits));
  // Half precision may round to either neighbor, fp16 to one of its smallest steps. The sum of exponentials is
  // exchanged in fp32: an error of a probability, 1 at most, and thus of weight; vectors of four lanes add the most.
  const double relative = dtype == at::kFloat ? 3e-6 : 2 * tolerance(dtype);
  const double least = dtype == at::kHalf ? std::ldexp(1, -24) : 1e-7 * kWeight;
  const Values found = values(computed.gradient), wanted = values(whole);
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_LE(std::abs(found[i] - wanted[i]), relative * std::abs(wanted[i]) + least)
        << "element " << i << ": " << found[i] << " instead of " << wanted[i];
}

TEST(CrossEntropySplit, IsAsOfWholeLogits) {
  std::mt19937_64 random_numbers(1);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 40; ++round) {
      const Case c = random_case(random_numbers);
      const double spread = round % 3 == 0 ? 1 : round % 3 == 1 ? 5 : 20;
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.n << " x " << c.V << " on " << c.ranks
                                        << " spread " << spread);
      const at::Tensor logits = random({c.n, c.V}, dtype, random_numbers(), 3, spread);
      const at::Tensor labels = integers({c.n}, c.V, random_numbers());
      for (int64_t r = 1; r < c.n; r += 3) labels.mutable_data_ptr<int32_t>()[r] = kIgnoredLabel;
      if (round % 10 == 9) labels.fill_(kIgnoredLabel);
      const std::vector<Part> parts = random_parts(c.V, c.ranks, random_numbers, 1);
      expect_as_whole(logits, labels, parts);
      const at::Tensor gradient = split(logits, labels, parts, true).gradient;
      for (int64_t r = 0; r < c.n; ++r) {
        if (labels.const_data_ptr<int32_t>()[r] == kIgnoredLabel) {
          EXPECT_EQ(values(gradient.select(0, r)), Values(static_cast<size_t>(c.V)));
        }
      }
    }
}

TEST(CrossEntropySplit, ExtremeLogitsDoNotOverflow) {
  std::mt19937_64 random_numbers(2);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 20; ++round) {
      const Case c = random_case(random_numbers);
      const at::Tensor logits = at::full({c.n, c.V}, -80.0, at::TensorOptions(dtype));
      for (int64_t r = 0; r < c.n; ++r)
        for (int64_t k = round % 4; k > 0; --k)
          logits.select(0, r).select(0, random_between(0, c.V - 1, random_numbers)).fill_(80);
      const at::Tensor labels = integers({c.n}, c.V, random_numbers());
      expect_as_whole(logits, labels, random_parts(c.V, c.ranks, random_numbers, 1));
    }
}

TEST(CrossEntropySplit, StatisticsAreTheDefinition) {
  const Part part{7, 1500};
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor logits = random({4, part.count}, dtype, 1, 3, 5), statistics = nan({4, 3});
    const at::Tensor labels = integers({4}, 1, 1);
    const std::vector<int32_t> all = {6, 7, 1506, 1507};
    std::copy(all.begin(), all.end(), labels.mutable_data_ptr<int32_t>());
    softmax_statistics(statistics, logits, labels, part.begin, 1508);
    const Values x = values(logits), found = values(statistics);
    for (size_t r = 0; r < 4; ++r) {
      const double* row = x.data() + r * 1500;
      const double most = *std::max_element(row, row + 1500);
      double sum = 0;
      for (int64_t i = 0; i < 1500; ++i) sum += std::exp(row[i] - most);
      EXPECT_EQ(found[3 * r], most);
      EXPECT_NEAR(found[3 * r + 1], sum, 1e-6 * sum);
      EXPECT_EQ(found[3 * r + 2], r == 1 ? row[0] : r == 2 ? row[1499] : 0);
    }
    labels.fill_(kIgnoredLabel);
    softmax_statistics(statistics, logits, labels, part.begin, 1508);
    for (int64_t r = 0; r < 4; ++r) EXPECT_EQ(statistics.select(0, r).select(0, 2).item<float>(), 0);
  }
}

TEST(CrossEntropySplit, ThreadsDoNotChangeABit) {
  const at::Tensor logits = random({301, 1100}, at::kBFloat16, 1), labels = integers({301}, 1100, 2);
  const std::vector<Part> parts = {{0, 500}, {500, 600}};
  const auto run = [&] { return split(logits, labels, parts, true); };
  const Computed one = with_threads(1, run), two = with_threads(2, run);
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_TRUE(same_bits(one.gradient, two.gradient));
}

TEST(CrossEntropySplit, NanComesThrough) {
  const at::Tensor logits = random({1, 3000}, at::kFloat, 1), labels = integers({1}, 1, 1);
  logits.select(1, 2000).fill_(std::numeric_limits<double>::quiet_NaN());
  for (double loss : split(logits, labels, {{0, 1000}, {1000, 2000}}, true).losses) EXPECT_TRUE(std::isnan(loss));
}

TEST(CrossEntropySplit, WrongOperandsAreNamedAndNothingIsWritten) {
  const at::Tensor logits = random({3, 7}, at::kFloat, 1), before = logits.clone(), labels = integers({3}, 7, 2);
  const at::Tensor loss = at::zeros({1}, at::kDouble);
  const auto error = [&](const at::Tensor& statistics, int64_t first, int64_t all, const char* message) {
    EXPECT_THAT([&] { cross_entropy_split(logits, labels, statistics, first, all, loss, &kNow, true); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  const at::Tensor statistics = nan({2, 3, 3});
  error(statistics, 8, 14, "7 columns from column 8 on, expected at least one of 14");
  error(statistics, -1, 14, "7 columns from column -1 on");
  error({}, 0, 7, "statistics are missing");
  EXPECT_THAT(
      [&] {
        softmax_statistics(nan({3, 3}), logits, labels, 8, 14);
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("7 columns from column 8 on")));
  error(nan({2, 4, 3}), 0, 7, "statistics: shape [2, 4, 3], expected [2, 3, 3]");
  for (const int32_t bad : {-2, 14}) {
    labels.mutable_data_ptr<int32_t>()[2] = bad;
    const std::string message = "label " + std::to_string(bad) + " of row 2 is outside 0..13";
    error(statistics, 7, 14, message.c_str());
    EXPECT_THAT(
        [&] {
          softmax_statistics(nan({3, 3}), logits, labels, 7, 14);
        },
        ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  }
  EXPECT_TRUE(same_bits(logits, before));
  EXPECT_EQ(loss.item<double>(), 0);
}

}  // namespace
}  // namespace partita::internal
