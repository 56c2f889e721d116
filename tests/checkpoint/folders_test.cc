#include "partita/checkpoint/folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/checkpoint/file_calls.h"
#include "tests/checkpoint/test_state.h"
#include "tests/checkpoint/thread_peers.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(StepFolderName, RoundTrips) {
  EXPECT_EQ(step_folder_name(100), "step-00000100");
  EXPECT_EQ(step_folder_name(123456789012), "step-123456789012");
  for (int64_t step : {int64_t{0}, int64_t{1}, int64_t{99999999}, int64_t{100000000}, INT64_MAX})
    EXPECT_EQ(parse_step_folder_name(step_folder_name(step)), step);
  for (const char* name : {"", "step-", "step-100", "step-000000100", "step-00000100.partial", "step-0000010x",
                           "step--0000100", "Step-00000100", "step-99999999999999999999"})
    EXPECT_EQ(parse_step_folder_name(name), std::nullopt) << name;
}

std::vector<int64_t> removed_of_good(const std::vector<int64_t>& steps, int64_t current, const Retention& retention) {
  return steps_to_remove(steps, current, retention, [](int64_t) { return true; });
}

TEST(Retention, KeepsWhatAnyRuleKeeps) {
  const std::vector<int64_t> steps = {100, 50, 150, 200, 250, 300};
  EXPECT_THAT(removed_of_good(steps, 300, {}), IsEmpty());
  EXPECT_THAT(removed_of_good(steps, 300, {.keep_last = 2}), ElementsAre(200, 150, 100, 50));
  EXPECT_THAT(removed_of_good(steps, 300, {.keep_last = 1, .keep_every = 100}), ElementsAre(250, 150, 50));
  EXPECT_THAT(removed_of_good(steps, 300, {.keep_last = 9}), IsEmpty());
  EXPECT_THAT(removed_of_good(steps, 300, {.keep_every = 100}), IsEmpty());
  EXPECT_THAT(removed_of_good(steps, 50, {.keep_last = 1}), ElementsAre(250, 200, 150, 100)) << "the one just written";
  EXPECT_THAT(removed_of_good({}, 0, {.keep_last = 1}), IsEmpty());
}

// One that cannot be used is not counted and not removed, and as few as can be are looked at.
TEST(Retention, CountsAndRemovesGoodOnesAlone) {
  const std::vector<int64_t> steps = {10, 20, 30, 40, 50, 60};
  std::vector<int64_t> asked;
  const auto good = [&](int64_t step) {
    asked.push_back(step);
    return step != 50 && step != 20;
  };
  EXPECT_THAT(steps_to_remove(steps, 60, {.keep_last = 2}, good), ElementsAre(30, 10));
  EXPECT_THAT(asked, ElementsAre(50, 40, 30, 20, 10));
  asked.clear();
  EXPECT_THAT(steps_to_remove(steps, 60, {.keep_last = 1, .keep_every = 10}, good), IsEmpty());
  EXPECT_THAT(asked, IsEmpty());
  EXPECT_THAT(steps_to_remove(steps, 60, {.keep_last = 2}, [](int64_t) { return false; }), IsEmpty());
}

// Written at minute 50, 70, 90, ... of the first hours: of every two hours the first is kept.
TEST(Retention, KeepsTheFirstOfEverySoManyHours) {
  const std::vector<int64_t> steps = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const auto good = [](int64_t) { return true; };
  const auto written = [](int64_t step) { return (30 + 20 * step) * 60; };
  EXPECT_THAT(steps_to_remove(steps, 10, {.keep_last = 2, .keep_hours = 2}, good, written),
              ElementsAre(8, 7, 6, 4, 3, 2));
  EXPECT_THAT(steps_to_remove(steps, 10, {.keep_last = 2, .keep_hours = 1}, good, written), ElementsAre(7, 6, 4, 3));
  // What one save keeps, later ones keep.
  std::vector<int64_t> there;
  for (int64_t step = 1; step <= 100; ++step) {
    there.push_back(step);
    for (const int64_t removed : steps_to_remove(there, step, {.keep_last = 1, .keep_hours = 3}, good, written))
      std::erase(there, removed);
  }
  EXPECT_THAT(there, ElementsAre(1, 8, 17, 26, 35, 44, 53, 62, 71, 80, 89, 98, 100));
}

void make(const fs::path& folder, const std::string& content) {
  fs::create_directories(folder);
  write_file(folder / "file", content);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(Folders, ListsCompleteStepsInOrder) {
  const TemporaryDirectory root;
  make(root.path() / "step-00000200", "");
  make(root.path() / "step-00000030", "");
  make(root.path() / "step-00000300.partial", "");
  make(root.path() / "other", "");
  write_file(root.path() / "step-00000999", "a file");
  std::vector<int64_t> steps;
  for (const StepFolder& folder : list_steps(root.path())) steps.push_back(folder.step);
  EXPECT_THAT(steps, ElementsAre(30, 200));
  EXPECT_THAT(list_steps(root.path() / "missing"), IsEmpty());
  remove_partials(root.path());
  EXPECT_FALSE(fs::exists(root.path() / "step-00000300.partial"));
  EXPECT_TRUE(fs::exists(root.path() / "step-00000200"));
  EXPECT_TRUE(fs::exists(root.path() / "other"));
}

TEST(Folders, PublishesOverNothingAndOverAnOlderOne) {
  const TemporaryDirectory root;
  const fs::path folder = root.path() / "step-00000001", partial = partial_path(folder);
  EXPECT_EQ(partial.filename(), "step-00000001.partial");
  for (const char* content : {"first", "second"}) {
    make(partial, content);
    publish(partial, folder);
    EXPECT_EQ(read_file(folder / "file"), content);
    EXPECT_FALSE(fs::exists(partial));
  }
  remove_checkpoint(folder);
  EXPECT_TRUE(fs::is_empty(root.path()));
}

// As on NFS, which cannot exchange two names.
TEST(Folders, PublishesWhereNamesCannotBeExchanged) {
  const TemporaryDirectory root;
  const fs::path folder = root.path() / "step-00000001", partial = partial_path(folder);
  test::can_exchange = false;
  make(folder, "first");
  make(partial, "second");
  publish(partial, folder);
  EXPECT_EQ(read_file(folder / "file"), "second");
  EXPECT_THAT(names_in(root.path()), ElementsAre("step-00000001"));
  // What fails half way leaves the older one under its name.
  EXPECT_THAT(error_message([&] { publish(partial, folder); }), testing::HasSubstr("cannot rename"));
  EXPECT_EQ(read_file(folder / "file"), "second");
  EXPECT_THAT(names_in(root.path()), ElementsAre("step-00000001"));
  test::can_exchange = true;
}

// Killed between the two renames: the older one is whole, and is found by the next start.
TEST(Folders, WhatWasBeingReplacedComesBack) {
  const TemporaryDirectory root;
  const fs::path folder = root.path() / "step-00000001";
  make(root.path() / "step-00000001.replaced.partial", "first");
  make(root.path() / "step-00000001.partial", "second");
  make(root.path() / "step-00000002.replaced.partial", "old");  // killed after both
  make(root.path() / "step-00000002", "new");
  remove_partials(root.path());
  EXPECT_THAT(names_in(root.path()), ElementsAre("step-00000001", "step-00000002"));
  EXPECT_EQ(read_file(folder / "file"), "first");
  EXPECT_EQ(read_file(root.path() / "step-00000002" / "file"), "new");
}

TEST(Folders, AnEmptyFolderGivesWay) {
  const TemporaryDirectory root;
  test::can_exchange = false;
  fs::create_directories(root.path() / "out");
  make(root.path() / "out.partial", "content");
  publish(root.path() / "out.partial", root.path() / "out");
  test::can_exchange = true;
  EXPECT_EQ(read_file(root.path() / "out" / "file"), "content");
  EXPECT_THAT(names_in(root.path()), ElementsAre("out"));
}

TEST(FindLatest, NothingYet) {
  const TemporaryDirectory root;
  EXPECT_EQ(find_latest(root.path()), std::nullopt);
  EXPECT_EQ(find_latest(root.path() / "missing"), std::nullopt);
  test::run_ranks(3, [&](Peers& peers) { EXPECT_EQ(find_latest(root.path(), peers), std::nullopt); });
}

}  // namespace
}  // namespace partita::internal
