#include "partita/device/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

TEST(Worker, WorksInOrderBesideTheCaller) {
  std::promise<void> go;
  std::vector<int> order;
  Worker worker;
  Event first = worker.submit([&, ready = go.get_future().share()] {
    ready.wait();
    order.push_back(0);
    return Event();
  });
  std::vector<Event> rest;
  for (int i = 1; i < 20; ++i)
    rest.push_back(worker.submit([&, i] {
      order.push_back(i);
      return Event();
    }));
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(rest.back().done());
  go.set_value();
  rest.back().wait();
  EXPECT_TRUE(first.done());
  ASSERT_EQ(order.size(), 20U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

struct Manual : EventState {
  bool test() override { return happened; }
  void wait() override { happened = true; }
  std::atomic<bool> happened = false;
};

// What the work has begun is part of it.
TEST(Worker, EventIsDoneWithTheEventOfTheWork) {
  const auto copy = std::make_shared<Manual>();
  Worker worker;
  const Event updated = worker.submit([&] { return Event(copy); });
  worker.submit([] { return Event(); }).wait();  // the work itself is over
  EXPECT_FALSE(updated.done());
  updated.wait();
  EXPECT_TRUE(copy->happened);
  EXPECT_TRUE(updated.done());
}

TEST(Worker, ErrorsComeToWhoWaits) {
  Worker worker;
  const Event bad = worker.submit([]() -> Event { fail("expected this"); });
  const Event good = worker.submit([] { return Event(); });
  EXPECT_THROW(bad.wait(), Error);
  good.wait();
}

TEST(Worker, EndsWhenAllIsDone) {
  int done = 0;
  {
    Worker worker;
    for (int i = 0; i < 50; ++i)
      (void)worker.submit([&] {
        ++done;
        return Event();
      });
  }
  EXPECT_EQ(done, 50);
}

}  // namespace
}  // namespace partita::internal
