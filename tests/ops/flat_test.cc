#include "partita/ops/flat.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

const int64_t kSizes[] = {0, 1, 7, 16, 33, 1000, 100003};
const at::ScalarType kAll[] = {at::kFloat, at::kBFloat16, at::kHalf};

// Every fp32 that rounding treats specially: ties, overflow, subnormals, infinities, NaN with only low bits.
at::Tensor awkward() {
  std::vector<uint32_t> bits = {0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                0x7F800001, 0xFFFFFFFF, 1,          0x00008000};
  for (uint32_t high : {0x3F80U, 0x3F81U, 0x7F7FU, 0x0001U, 0xBF80U, 0x477FU})
    for (uint32_t low : {0U, 1U, 0x1000U, 0x2000U, 0x7FFFU, 0x8000U, 0x8001U, 0xEFFFU, 0xF000U, 0xFFFFU})
      bits.push_back(high << 16 | low);
  at::Tensor out = at::empty({static_cast<int64_t>(bits.size())}, at::TensorOptions(at::kFloat));
  std::memcpy(out.mutable_data_ptr(), bits.data(), bits.size() * sizeof(uint32_t));
  return out;
}

double squares_of(const at::Tensor& in) {
  const at::Tensor out = at::zeros({1}, at::kDouble);
  sum_of_squares(in, out);
  return out.item<double>();
}

TEST(Flat, CastRoundsToNearestEven) {
  for (at::ScalarType from : kAll)
    for (at::ScalarType to : kAll)
      for (const at::Tensor& numbers : {awkward(), random({4099}, at::kFloat, 1)}) {
        const at::Tensor in = numbers.to(from), out = nan(in.sizes(), to);
        cast(out, in);
        const Values found = values(out), expected = values(in.to(at::kFloat).to(to));
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
              << at::toString(from) << " to " << at::toString(to) << ": " << found[i] << " not " << expected[i];
      }
}

TEST(Flat, AddInto) {
  for (at::ScalarType from : kAll)
    for (int64_t n : kSizes)
      for (const bool accumulate : {false, true}) {
        const at::Tensor in = random({n}, from, 1), out = accumulate ? random({n}, at::kFloat, 2) : nan({n});
        Values expected = values(in);
        const Values before = values(out);
        for (size_t i = 0; accumulate && i < expected.size(); ++i) expected[i] += before[i];
        add_into(out, in, accumulate);
        expect_close(out, expected, 1e-7);
      }
}

TEST(Flat, SumOfSquares) {
  for (at::ScalarType dtype : kAll)
    for (int64_t n : kSizes) {
      const at::Tensor in = random({n}, dtype, 1, 0, dtype == at::kHalf ? 1e3 : 1e25);
      double expected = 0;
      for (double x : values(in)) expected += x * x;
      const auto run = [&] { return squares_of(in); };
      EXPECT_NEAR(run(), expected, 1e-12 * expected) << at::toString(dtype) << " " << n;
      EXPECT_EQ(with_threads(1, run), with_threads(2, run));
    }
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const at::Tensor in = random({100003}, at::kFloat, 1);
    in.mutable_data_ptr<float>()[77777] = static_cast<float>(bad);
    EXPECT_FALSE(std::isfinite(squares_of(in)));
  }
}

TEST(Flat, WrongOperandsAreNamed) {
  EXPECT_THAT([] { cast(nan({3}), nan({4})); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("in: shape [4]")));
  EXPECT_THAT([] { (void)squares_of(at::zeros({3}, at::kInt)); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("dtype Int")));
}

}  // namespace
}  // namespace partita::internal
