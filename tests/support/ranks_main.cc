// main() of the tests on several ranks. Rank 0 prints GoogleTest's output; other ranks print only their failures,
// prefixed with their rank. All ranks exit with code 1 if a test failed on any of them. A test that ends early (a
// failed ASSERT, an exception) ends the whole run, because the other ranks would wait for this one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

std::optional<World> world;

// Prints failures of one rank, and nothing else.
class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

  // Not asked of UnitTest in OnTestPartResult, which GoogleTest calls with its mutex locked.
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s failed at %s:%d\n%s\n", rank_, test_.c_str(),
                 result.file_name() ? result.file_name() : "", result.line_number(), result.message());
    std::fflush(stderr);
  }

 private:
  int rank_;
  std::string test_;
};

class EarlyEnd final : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->HasFatalFailure()) return;
    std::fprintf(stderr, "[rank %d] %s.%s ended early: ending all ranks\n", world->rank(), test.test_suite_name(),
                 test.name());
    std::fflush(nullptr);
    World::abort(1);
  }
};

bool on_any_rank(bool here) {
  const auto all = world->group("tests", test_ranks());
  const std::vector<std::string> answers = gather_strings(*all, here ? "yes" : "no");
  return std::find(answers.begin(), answers.end(), "yes") != answers.end();
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* delay = std::getenv("PARTITA_TEST_DELAY");  // microseconds: messages leave late by up to this
  world = World::connect({.timeout = std::chrono::seconds(60),
                          .delay = std::chrono::microseconds(delay == nullptr ? 0 : std::atoi(delay))});
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  testing::TestEventListener* printer = listeners.Release(listeners.default_result_printer());
  listeners.Append(new EarlyEnd);  // before the printer: ends of tests are told in reverse order
  if (world->rank() == 0) {
    listeners.Append(printer);
  } else {
    delete printer;
    listeners.Append(new FailurePrinter(world->rank()));
  }
  const bool failed_here = RUN_ALL_TESTS() != 0;
  const bool failed = on_any_rank(failed_here);
  if (failed && !failed_here && world->rank() == 0) std::fprintf(stderr, "tests failed on another rank, see above\n");
  world.reset();
  return failed ? 1 : 0;
}

}  // namespace

World& test_world() { return *world; }

}  // namespace partita::internal

int main(int argc, char** argv) {
  try {
    return partita::internal::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    partita::World::abort(1);
  }
}
