#include "partita/text/ordered_parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace partita::internal {
namespace {

using std::chrono::microseconds;

TEST(OrderedParallel, ResultsComeInTheOrderOfTasks) {
  for (int workers : {1, 2, 7}) {
    for (int tasks : {0, 1, 5, 300}) {
      int next = 0;
      std::atomic<int> most_under_way = 0, under_way = 0;
      std::vector<int> results;
      ordered_parallel(
          workers,
          [&]() -> std::optional<int> {
            if (next == tasks) return std::nullopt;
            most_under_way = std::max(most_under_way.load(), ++under_way);
            return next++;
          },
          [&](int worker, int task) {
            EXPECT_GE(worker, 0);
            EXPECT_LT(worker, workers);
            std::this_thread::sleep_for(microseconds((task * 7919) % 200));  // later ones often finish first
            return 2 * task;
          },
          [&](int result) {
            --under_way;
            results.push_back(result);
          });
      ASSERT_EQ(results.size(), static_cast<size_t>(tasks));
      for (int i = 0; i < tasks; ++i) EXPECT_EQ(results[static_cast<size_t>(i)], 2 * i);
      EXPECT_LE(most_under_way, 2 * workers);
    }
  }
}

// The message of what is thrown when `where` throws at task 20, and the results consumed until then.
std::pair<std::string, int> run_failing(const std::string& where) {
  const auto fail_at = [](bool here) {
    if (here) throw std::runtime_error("broken");
  };
  int next = 0, consumed = 0;
  try {
    ordered_parallel(
        3,
        [&]() -> std::optional<int> {
          fail_at(where == "produce" && next == 20);
          return next < 100 ? std::optional(next++) : std::nullopt;
        },
        [&](int, int task) {
          fail_at(where == "work" && task >= 20);
          return task;
        },
        [&](int result) {
          fail_at(where == "consume" && result == 20);
          ++consumed;
        });
  } catch (const std::runtime_error& error) {
    return {error.what(), consumed};
  }
  return {"", consumed};
}

TEST(OrderedParallel, AnExceptionAnywhereEndsItInOrder) {
  EXPECT_EQ(run_failing("work"), std::pair(std::string("broken"), 20));
  EXPECT_EQ(run_failing("consume"), std::pair(std::string("broken"), 20));
  EXPECT_EQ(run_failing("produce").first, "broken");
  EXPECT_EQ(run_failing("nowhere"), std::pair(std::string(), 100));
}

}  // namespace
}  // namespace partita::internal
