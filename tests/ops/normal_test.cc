#include "partita/ops/normal.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

at::Tensor made(int64_t count, const NormalSequence& sequence, at::ScalarType dtype = at::kFloat) {
  const at::Tensor out = nan({count}, dtype);
  fill_normal(out, sequence);
  return out;
}

// Box-Muller as a textbook has it, by the mathematical library in extended precision.
std::array<double, 4> textbook(PhiloxKey key, uint64_t block) {
  const PhiloxBlock words = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key);
  std::array<double, 4> out{};
  for (size_t pair = 0; pair < 4; pair += 2) {
    const long double u = (words[pair] + 0.5L) * 0x1p-32L;
    const long double angle = 2 * std::numbers::pi_v<long double> * (words[pair + 1] * 0x1p-32L);
    const long double radius = std::sqrt(-2 * std::log(u));
    out[pair] = static_cast<double>(radius * std::cos(angle));
    out[pair + 1] = static_cast<double>(radius * std::sin(angle));
  }
  return out;
}

// Distance of two numbers in units in the last place.
int64_t ulps(float a, float b) {
  const auto ordered = [](float x) {
    int32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? int64_t{INT32_MIN} - bits : int64_t{bits};
  };
  return std::abs(ordered(a) - ordered(b));
}

TEST(Normal, IsBoxMullerToTheLastBit) {
  const PhiloxKey key = philox_key(hash_of(5, "weights"));
  constexpr int64_t kCount = 400'000;
  const at::Tensor x = made(kCount, {.key = key});
  const float* found = x.const_data_ptr<float>();
  int64_t different = 0;
  for (int64_t block = 0; block < kCount / 4; ++block) {
    const std::array<double, 4> expected = textbook(key, static_cast<uint64_t>(block));
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t distance = ulps(found[4 * block + i], static_cast<float>(expected[static_cast<size_t>(i)]));
      ASSERT_LE(distance, 1) << block << ' ' << i;
      different += distance;
    }
  }
  EXPECT_LE(different, 1);  // a double's error decides how one of 10^8 rounds
}

// Far beyond 2^32 blocks, and across that border.
TEST(Normal, CountsElementsIn64Bits) {
  const PhiloxKey key = philox_key(77);
  for (const int64_t first : {(int64_t{1} << 34) - 8, (int64_t{1} << 40) + 4, int64_t{1} << 61}) {
    const at::Tensor x = made(64, {.key = key, .first = first});
    for (int64_t i = 0; i < 64; ++i)
      ASSERT_LE(
          ulps(x.const_data_ptr<float>()[i],
               static_cast<float>(textbook(key, static_cast<uint64_t>((first + i) / 4))[static_cast<size_t>(i % 4)])),
          1)
          << first << ' ' << i;
  }
}

// Moments, tails and the largest distance between the distribution and that of the samples (Kolmogorov-Smirnov), within
// some four standard deviations of what chance gives.
TEST(Normal, HasTheNormalDistribution) {
  constexpr int64_t kCount = 2'000'000;
  const at::Tensor x = made(kCount, {.key = philox_key(hash_of(6, "weights"))});
  std::vector<double> v = values(x);
  const double n = static_cast<double>(kCount);
  double sum = 0, square = 0, third = 0, fourth = 0, pairs = 0, within = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    const double s = v[i] * v[i];
    sum += v[i], square += s, third += s * v[i], fourth += s * s;
    if (i % 2 == 1) pairs += v[i] * v[i - 1];
    if (i % 4 == 2) within += v[i] * v[i - 1];
  }
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(third / n, 0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96 / n));
  EXPECT_NEAR(pairs / (n / 2), 0, 4 / std::sqrt(n / 2));
  EXPECT_NEAR(within / (n / 4), 0, 4 / std::sqrt(n / 4));
  std::ranges::sort(v);
  for (const double limit : {1.0, 2.0, 3.0, 4.0})
    for (const double side : {-1.0, 1.0}) {
      const double expected = n * std::erfc(limit / std::numbers::sqrt2) / 2;
      const auto beyond =
          static_cast<double>(std::ranges::count_if(v, [&](double value) { return side * value > limit; }));
      EXPECT_NEAR(beyond, expected, 4 * std::sqrt(expected)) << side * limit;
    }
  double distance = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    const double p = std::erfc(-v[i] / std::numbers::sqrt2) / 2;
    distance =
        std::max({distance, std::abs(p - static_cast<double>(i) / n), std::abs(p - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LE(distance, 2 / std::sqrt(n));  // 0.0007 of all samples are further off
}

// Every cut of the sequence, also across the stretches and vectors that kernels make at once, and any number of
// threads.
TEST(Normal, DoesNotDependOnTheCut) {
  const NormalSequence whole{.key = philox_key(9), .first = 3, .mean = 0.25F, .std = 3};
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor all = with_threads(1, [&] { return made(70'000, whole, dtype); });
    EXPECT_TRUE(same_bits(with_threads(2, [&] { return made(70'000, whole, dtype); }), all));
    for (const int64_t begin : {0, 1, 2, 5, 1020, 1021, 1022, 1023, 1024, 32'767, 69'999})
      for (const int64_t count : {0, 1, 3, 4, 31, 33, 1023, 1025, 3000}) {
        if (begin + count > all.numel()) continue;
        NormalSequence part = whole;
        part.first += begin;
        EXPECT_TRUE(same_bits(made(count, part, dtype), all.narrow(0, begin, count))) << begin << ' ' << count;
      }
  }
}

TEST(Normal, ScalesAndRoundsOnce) {
  const PhiloxKey key = philox_key(10);
  const at::Tensor standard = made(5000, {.key = key}), scaled = made(5000, {.key = key, .mean = -1.5F, .std = 0.02F});
  for (int64_t i = 0; i < 5000; ++i)
    ASSERT_EQ(scaled.const_data_ptr<float>()[i], std::fma(standard.const_data_ptr<float>()[i], 0.02F, -1.5F)) << i;
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    EXPECT_TRUE(same_bits(made(5000, {.key = key, .mean = -1.5F, .std = 0.02F}, dtype), scaled.to(dtype)));
}

// AVX-512, AVX2 and portable code make the same bits: a model does not depend on the machine it began on.
TEST(Normal, HasTheSameBitsOnEveryInstructionSet) {
  const NormalSequence sequence{.key = philox_key(11), .first = 5, .mean = 0.1F, .std = 0.7F};
  const int64_t supported = hwy::SupportedTargets();
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor best = made(100'001, sequence, dtype);
    for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_STATIC_TARGET}) {
      if ((supported & target) == 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
      EXPECT_TRUE(same_bits(made(100'001, sequence, dtype), best)) << at::toString(dtype) << hwy::TargetName(target);
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  }
}

TEST(Normal, RefusesWhatIsNoVectorOfNumbers) {
  EXPECT_THROW(fill_normal(at::empty({4}, at::kInt), {}), Error);
  EXPECT_THROW(fill_normal(at::empty({4, 2}, at::kFloat), {}), Error);
  EXPECT_THROW(fill_normal(at::empty({8}, at::kFloat).slice(0, 0, 8, 2), {}), Error);
  EXPECT_THROW(fill_normal(at::Tensor(), {}), Error);
  EXPECT_THROW(fill_normal(at::empty({4}, at::kFloat), {.first = -1}), Error);
}

}  // namespace
}  // namespace partita::internal
