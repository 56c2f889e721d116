#include "partita/checkpoint/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace partita::internal {
namespace {

std::optional<size_t> overflow(ElementType type, float value) { return find_overflow(type, std::array{0.F, value}); }

// Exactly what rounds to infinity: from_fp32 and back say the same.
TEST(Elements, OverflowIsWhatWouldRoundToInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const ElementType type : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
    for (const float limit : {65504.F, 65519.996F, 65520.F, 65536.F, 0x1.FEp127F, 0x1.FEFFFEp127F, 0x1.FFp127F,
                              std::numeric_limits<float>::max(), 1.F, 0.F}) {
      for (const float value : {limit, -limit}) {
        std::array<std::byte, 4> bytes{};
        std::array<float, 1> back{};
        from_fp32(type, std::array{value}, bytes.data());
        to_fp32(type, bytes.data(), 1, back);
        EXPECT_EQ(overflow(type, value).has_value(), std::isinf(back[0])) << name_of(type) << " " << value;
      }
    }
    EXPECT_EQ(overflow(type, kInfinity), std::nullopt);  // it is what it was
    EXPECT_EQ(overflow(type, std::nanf("")), std::nullopt);
  }
  EXPECT_EQ(overflow(ElementType::f16, 1e5F), 1U);
}

}  // namespace
}  // namespace partita::internal
