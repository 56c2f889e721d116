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

// The lowest priority of what is ready; of the same, in the order given. What nobody is ready for waits for the first.
TEST(Worker, ReadyTasksGoByPriority) {
  struct Flag : EventState {
    bool test() override { return set; }
    void wait() override {
      waited = true;
      set = true;
    }
    std::atomic<bool> set = false, waited = false;
  };
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::vector<int> order;
  const auto late = std::make_shared<Flag>(), later = std::make_shared<Flag>();
  Worker worker;
  (void)worker.submit([gone] {
    gone.wait();
    return Event();
  });
  std::vector<Event> all;
  const auto give = [&](int number, Worker::Turn turn) {
    all.push_back(worker.submit(
        [&order, number] {
          order.push_back(number);
          return Event();
        },
        std::move(turn)));
  };
  give(0, {.priority = 5});
  give(1, {.priority = 1, .ready = Event(late)});
  give(2, {.priority = 3});
  give(3, {.priority = 0, .ready = Event(later)});
  give(4, {.priority = 3});
  give(5, {});
  go.set_value();
  for (const Event& event : all) event.wait();
  EXPECT_EQ(order, (std::vector<int>{5, 2, 4, 0, 1, 3}));
  EXPECT_TRUE(late->waited && later->waited);
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
