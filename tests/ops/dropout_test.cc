#include "partita/ops/dropout.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "tests/ops/dropout_reference.h"
#include "tests/ops/parts.h"

namespace partita::internal {
namespace {

using namespace reference;

struct Case {
  int64_t samples, length, C;
  float p;
};
const Case kCases[] = {{1, 1, 1, 0.5F},    {2, 5, 16, 0},    {2, 5, 16, 0.1F}, {3, 7, 33, 0.5F},
                       {4, 33, 130, 0.2F}, {0, 8, 24, 0.3F}, {1, 3, 7, 1e-7F}};

Dropout dropout_of(const Case& c) { return reference::dropout_of(c.p, c.samples); }
Values multipliers(const Case& c) { return dropout_multipliers(c.p, c.samples, c.length * c.C); }

TEST(Dropout, ForwardAndAddAreTheScalarDefinition) {
  for (at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << " x " << c.C
                                        << " p " << c.p);
      const at::Tensor in = random({c.samples * c.length, c.C}, dtype, 1), out = nan(in.sizes(), dtype);
      dropout_forward(out, in, dropout_of(c));
      Values expected = multipliers(c);
      const Values x = values(in);
      for (size_t i = 0; i < x.size(); ++i) expected[i] *= x[i];
      expect_close(out, expected, tolerance(dtype));
      if (dropout_threshold(c.p) == 0) {
        EXPECT_TRUE(same_bits(out, in));
      }

      const at::Tensor in_place = in.clone();
      dropout_forward(in_place, in_place, dropout_of(c));
      EXPECT_TRUE(same_bits(in_place, out));

      const at::Tensor sum = random(in.sizes(), dtype, 2);
      const Values before = values(sum);
      for (size_t i = 0; i < x.size(); ++i) expected[i] += before[i];
      dropout_add(sum, in, dropout_of(c));
      expect_close(sum, expected, tolerance(dtype));
    }
}

TEST(Dropout, MaskIsTheScalarDefinitionBitForBit) {
  for (const Case& c : kCases) {
    const at::Tensor ones = at::full({c.samples * c.length, c.C}, 1.0, at::TensorOptions(at::kFloat));
    dropout_forward(ones, ones, dropout_of(c));
    EXPECT_EQ(values(ones), multipliers(c)) << c.C;
  }
}

TEST(Dropout, ThreadsDoNotChangeABit) {
  const Case c{4, 101, 65, 0.3F};
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor in = random({c.samples * c.length, c.C}, dtype, 1);
    const auto run = [&] {
      const at::Tensor out = random(in.sizes(), dtype, 2);
      dropout_add(out, in, dropout_of(c));
      return out;
    };
    EXPECT_TRUE(same_bits(with_threads(1, run), with_threads(2, run)));
  }
}

// Whatever the rows are divided into, also within a sample.
TEST(Dropout, PartsAreAsInTheWhole) {
  std::mt19937_64 random_numbers(1);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 20; ++round) {
      const Case c{random_between(1, 4, random_numbers), random_between(1, 23, random_numbers),
                   random_between(1, 70, random_numbers), 0.3F};
      const int64_t rows = c.samples * c.length;
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << " x "
                                        << c.C);
      const at::Tensor in = random({rows, c.C}, dtype, 1), out = nan(in.sizes(), dtype),
                       by_part = nan(in.sizes(), dtype);
      const at::Tensor sum = random(in.sizes(), dtype, 2), sum_by_part = sum.clone();
      dropout_forward(out, in, dropout_of(c));
      dropout_add(sum, in, dropout_of(c));
      for (const Part& part : random_parts(rows, random_between(1, 5, random_numbers), random_numbers)) {
        const Dropout dropout = dropout_of_part(dropout_of(c), part.begin, rows);
        dropout_forward(part.of(by_part), part.of(in), dropout);
        dropout_add(part.of(sum_by_part), part.of(in), dropout);
      }
      EXPECT_TRUE(same_bits(by_part, out));
      EXPECT_TRUE(same_bits(sum_by_part, sum));
    }
}

// Columns of rows, as an adapter of a linear whose input is split has them.
TEST(Dropout, ColumnsAreAsInTheWhole) {
  std::mt19937_64 random_numbers(2);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 20; ++round) {
      const Case c{random_between(1, 4, random_numbers), random_between(1, 9, random_numbers),
                   random_between(1, 70, random_numbers), 0.3F};
      const at::Tensor in = random({c.samples * c.length, c.C}, dtype, 1), out = nan(in.sizes(), dtype);
      const at::Tensor sum = random(in.sizes(), dtype, 2);
      const at::Tensor sum_before = sum.clone();
      dropout_forward(out, in, dropout_of(c));
      dropout_add(sum, in, dropout_of(c));
      for (const Part& part : random_parts(c.C, random_between(1, 4, random_numbers), random_numbers)) {
        Dropout dropout = dropout_of(c);
        dropout.first_column = part.begin, dropout.columns = c.C;
        const auto columns = [&](const at::Tensor& t) { return t.narrow(1, part.begin, part.count).contiguous(); };
        const at::Tensor some = nan({in.size(0), part.count}, dtype), added = columns(sum_before);
        dropout_forward(some, columns(in), dropout);
        dropout_add(added, columns(in), dropout);
        EXPECT_TRUE(same_bits(some, columns(out)));
        EXPECT_TRUE(same_bits(added, columns(sum)));
      }
    }
  Dropout dropout = reference::dropout_of(0.5F, 4);
  dropout.first_column = 3, dropout.columns = 5;
  EXPECT_THAT(
      [&] {
        dropout_forward(nan({8, 3}), nan({8, 3}), dropout);
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("3 columns from column 3 on are outside rows of 5")));
}

TEST(Dropout, PartsOutsideTheMicroBatchAreNamed) {
  const auto error = [](int64_t count, int64_t first_row, int64_t rows, const char* message) {
    EXPECT_THAT(
        [&] {
          dropout_forward(nan({count, 3}), nan({count, 3}),
                          dropout_of_part(reference::dropout_of(0.5F, 4), first_row, rows));
        },
        ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  error(3, 6, 8, "3 rows from row 6 on are outside a micro-batch of 8 rows");
  error(3, -1, 8, "3 rows from row -1 on are outside");
  error(4, 1, 0, "4 rows from row 1 on are outside a micro-batch of 4 rows");
  error(3, 0, 9, "9 rows are not whole samples: 4 ids");
}

TEST(Dropout, WrongOperandsAreNamed) {
  const Case c{4, 2, 3, 0.5F};
  EXPECT_THAT(
      [&] {
        dropout_forward(nan({8, 3}), nan({8, 4}), dropout_of(c));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("out: shape [8, 3], expected [8, 4]")));
  EXPECT_THAT(
      [&] {
        dropout_add(nan({7, 3}), nan({7, 3}), dropout_of(c));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("7 rows are not whole samples: 4 ids")));
  EXPECT_THAT(
      [&] {
        dropout_forward(nan({8, 3}), nan({8, 3}), dropout_of({4, 2, 3, 1}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("probability 1 is not in [0, 1)")));
}

}  // namespace
}  // namespace partita::internal
