#include "partita/comm/operation.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

class Scratches : public testing::Test {
 protected:
  // The memory that an operation gets which is over at once.
  const std::byte* take(size_t bytes) {
    const std::byte* memory = nullptr;
    (void)operations_->start(call_, {[&](Operation& o) { memory = o.scratch(bytes).data(); }});
    return memory;
  }

  Call call_{.group = std::make_shared<const Group>(Group{"alone", 0, {0}, {0}}), .kind = "sum"};
  std::shared_ptr<Operations> operations_ =
      std::make_shared<Operations>(make_local_transport(), std::chrono::milliseconds(1000));
};

TEST_F(Scratches, AreUsedAgainUpToTwiceTheSize) {
  const std::byte* large = take(1000);
  EXPECT_EQ(take(1000), large);
  EXPECT_EQ(take(500), large);
  const std::byte* small = take(499);  // `large` is free and stays so
  EXPECT_NE(small, large);
  EXPECT_EQ(take(499), small);
  EXPECT_EQ(take(501), large);
  EXPECT_NE(take(1001), large);
}

TEST_F(Scratches, TheSmallestThatFitsIsTaken) {
  const std::byte *nine = nullptr, *seven = nullptr, *eight = nullptr;
  (void)operations_->start(call_, {[&](Operation& o) {
                             nine = o.scratch(900).data();
                             seven = o.scratch(700).data();
                             eight = o.scratch(800).data();
                           }});
  EXPECT_EQ(take(750), eight);
  EXPECT_EQ(take(650), seven);
  EXPECT_EQ(take(850), nine);
}

TEST_F(Scratches, OfOneOperationAreApart) {
  std::span<std::byte> one, two;
  (void)operations_->start(call_, {[&](Operation& o) {
                             one = o.scratch(64);
                             two = o.scratch(64);
                           }});
  EXPECT_EQ(one.size(), 64U);
  EXPECT_EQ(two.size(), 64U);
  EXPECT_TRUE(one.data() + 64 <= two.data() || two.data() + 64 <= one.data());
}

}  // namespace
}  // namespace partita::internal
