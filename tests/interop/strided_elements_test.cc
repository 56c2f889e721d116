#include "partita/interop/strided_elements.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "tests/support/boxes.h"

namespace partita::internal {
namespace {
using namespace test;

// Matrices by rows, transposed, with gaps, with every other row, and vectors; into part of a larger matrix.
TEST(StridedElements, ReadsAnyRectangleOfAnyOrder) {
  std::vector<float> numbers(40000);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  const auto* data = reinterpret_cast<const std::byte*>(numbers.data());
  struct Order {
    int64_t rows, columns, row_stride, column_stride;
  };
  std::mt19937 random(5);
  for (const Order& o : {Order{70, 9, 9, 1}, Order{150, 9, 1, 150}, Order{70, 9, 18, 1}, Order{70, 9, 9, 2},
                         Order{1, 30, 0, 1}, Order{30, 1, 1, 1}, Order{30, 1, 7, 1}, Order{1, 1, 1, 1}}) {
    for (int round = 0; round < 100; ++round) {
      const Box box = random_box(random, {.rows = o.rows, .columns = o.columns});
      const int64_t stride = box.columns + random_up_to(random, 3);
      std::vector<float> out(static_cast<size_t>(box.rows * stride), 0.0F);
      read_elements({ElementType::f32, data, o.row_stride, o.column_stride}, box, out.data(), stride);
      for (int64_t r = 0; r < box.rows; ++r)
        for (int64_t c = 0; c < stride; ++c) {
          const int64_t element = (box.row + r) * o.row_stride + (box.column + c) * o.column_stride;
          ASSERT_EQ(out[static_cast<size_t>(r * stride + c)], c < box.columns ? static_cast<float>(element + 1) : 0.0F)
              << o.rows << " x " << o.columns << ", row " << r << " column " << c;
        }
    }
  }
}

}  // namespace
}  // namespace partita::internal
