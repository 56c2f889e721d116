#include "partita/module/backward_order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Reduces what is complete.
std::vector<int> reduced(BackwardOrder& order) {
  std::vector<int> units;
  for (int u = order.complete(); u >= 0; u = order.complete()) {
    units.push_back(u);
    order.reduced();
  }
  return units;
}

TEST(BackwardOrder, IsTheReverseAtFirstAndThenWhatWasSeen) {
  BackwardOrder order({1, 2, 1}, {0, 1, 2});
  order.begin({true, true, true});
  EXPECT_EQ(order.next(), 2);
  order.arrived(1, 0);
  order.arrived(1, 1);
  EXPECT_THAT(reduced(order), ElementsAre());  // unit 2 is first
  order.arrived(2, 0);
  EXPECT_THAT(reduced(order), ElementsAre(2, 1));
  EXPECT_EQ(order.next(), 0);
  EXPECT_THAT(order.seen(), ElementsAre(1, 2, 0));  // the gradient of unit 0 never came
  order.set_sequence(order.seen());
  order.begin({true, true, true});
  order.arrived(1, 1);
  EXPECT_THAT(reduced(order), ElementsAre());
  order.arrived(1, 1);  // the same one again, before its unit is reduced
  EXPECT_THAT(reduced(order), ElementsAre());
  order.arrived(1, 0);
  EXPECT_THAT(reduced(order), ElementsAre(1));
  EXPECT_THAT(error_message([&] { order.arrived(1, 0); }), HasSubstr("after the first was reduced"));
}

TEST(BackwardOrder, ABufferBelongsToOneUnitAtATime) {
  BackwardOrder order({1, 1, 1, 1}, {0, 1, 0, 1});
  order.begin({true, true, true, true});
  EXPECT_TRUE(order.writable(3));
  EXPECT_TRUE(order.writable(2));
  EXPECT_FALSE(order.writable(1));
  EXPECT_FALSE(order.writable(0));
  order.arrived(3, 0);
  EXPECT_THAT(reduced(order), ElementsAre(3));
  EXPECT_TRUE(order.writable(1));
  EXPECT_FALSE(order.writable(0));
}

// Gradients in any order, of any number of passes: every unit is reduced once, in the sequence; never two in a buffer.
TEST(BackwardOrder, EveryUnitIsReducedOnceInTheSequence) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int units = 1 + static_cast<int>(random() % 7);
    std::vector<int> parameters, buffers;
    for (int u = 0; u < units; ++u) {
      parameters.push_back(1 + static_cast<int>(random() % 4));
      buffers.push_back(static_cast<int>(random() % 3));
    }
    BackwardOrder order(parameters, buffers);
    std::vector<int> sequence(static_cast<size_t>(units));
    for (int u = 0; u < units; ++u) sequence[static_cast<size_t>(u)] = units - 1 - u;
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<std::pair<int, int>> gradients;
      std::vector<bool> in_pass;  // some units wait for another pass
      for (int u = 0; u < units; ++u) in_pass.push_back(pass != 1 || random() % 2 == 0);
      for (int u = 0; u < units; ++u)
        for (int p = 0; p < parameters[static_cast<size_t>(u)]; ++p)
          if (in_pass[static_cast<size_t>(u)] && random() % 8 != 0) gradients.emplace_back(u, p);
      std::ranges::shuffle(gradients, random);
      order.begin(in_pass);
      std::vector<int> found;
      for (const auto& [u, p] : gradients) {
        order.arrived(u, p);
        for (int v = 0; v < units; ++v)
          for (int w = 0; w < v; ++w) {
            if (!in_pass[static_cast<size_t>(v)] || !in_pass[static_cast<size_t>(w)]) continue;
            const bool open = std::ranges::find(found, v) == found.end() && std::ranges::find(found, w) == found.end();
            if (!open || buffers[static_cast<size_t>(v)] != buffers[static_cast<size_t>(w)]) continue;
            EXPECT_FALSE(order.writable(v) && order.writable(w));
          }
        for (const int r : reduced(order)) found.push_back(r);
      }
      for (; order.next() >= 0; order.reduced()) found.push_back(order.next());
      std::erase_if(sequence, [&](int u) { return !in_pass[static_cast<size_t>(u)]; });
      EXPECT_EQ(found, sequence);
      sequence = order.seen();
      std::vector<int> sorted = sequence;
      std::ranges::sort(sorted);
      for (int u = 0; u < units; ++u) EXPECT_EQ(sorted[static_cast<size_t>(u)], u);
      order.set_sequence(sequence);
    }
  }
}

TEST(BackwardOrder, AGradientOfAUnitThatIsNotInThePassIsAnError) {
  BackwardOrder order({1, 1, 1}, {0, 0, 0});
  order.begin({true, false, true});
  EXPECT_THAT(error_message([&] { order.arrived(1, 0); }), HasSubstr("announced to give none"));
  order.arrived(2, 0);
  EXPECT_THAT(reduced(order), ElementsAre(2));
  EXPECT_TRUE(order.writable(0));
}

}  // namespace
}  // namespace partita::internal
