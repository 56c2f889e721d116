#include "partita/checkpoint/listing.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "partita/checkpoint/folders.h"
#include "tests/checkpoint/saving.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::optional<StepFolderKind> kind(int64_t step, CheckpointState state) { return StepFolderKind{step, state}; }

TEST(StepFolderKind, IsInTheName) {
  EXPECT_EQ(step_folder_kind("step-00000100"), kind(100, CheckpointState::complete));
  EXPECT_EQ(step_folder_kind("step-00000100.partial"), kind(100, CheckpointState::partial));
  EXPECT_EQ(step_folder_kind("step-00000100.replaced.partial"), kind(100, CheckpointState::partial));
  EXPECT_EQ(step_folder_kind("step-00000100.damaged"), kind(100, CheckpointState::set_aside));
  EXPECT_EQ(step_folder_kind("step-00000100-2.damaged"), kind(100, CheckpointState::set_aside));
  EXPECT_EQ(step_folder_kind("step-00000100-12.damaged"), kind(100, CheckpointState::set_aside));
  for (const char* name : {"", "step-100", "step-100.partial", "step-00000100.replaced", "step-00000100-x.damaged",
                           "step-00000100-2", "best", ".partial", ".damaged", "step-00000100.tmp"})
    EXPECT_EQ(step_folder_kind(name), std::nullopt) << name;
}

std::vector<std::string> names(const std::vector<ListedCheckpoint>& all) {
  std::vector<std::string> found;
  for (const ListedCheckpoint& c : all) found.push_back(c.name);
  return found;
}

TEST(ListCheckpoints, TellsTheirStates) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 3);
  save(root.path(), 200, values, 3);
  save(root.path(), 100, values, 1);
  save(root.path(), 300, values, 2);
  fs::resize_file(root.path() / "step-00000300/rank-00001.safetensors", 10);
  save(root.path(), 400, values, 1);
  (void)set_aside(root.path() / "step-00000400");
  save(root.path(), 400, values, 2);
  (void)set_aside(root.path() / "step-00000400");
  save(root.path(), 600, values, 1);
  write_file(root.path() / "step-00000600/manifest.json", R"({"format": "partita checkpoint", "version": 4})");
  fs::create_directory(root.path() / "step-00000500.partial");
  write_file(root.path() / "step-00000500.partial/rank-00000.safetensors", "half");
  fs::create_directory(root.path() / "other");
  write_file(root.path() / "step-00000700", "a file");

  const std::vector<ListedCheckpoint> all = list_checkpoints(root.path());
  ASSERT_THAT(names(all), ElementsAre("step-00000100", "step-00000200", "step-00000300", "step-00000400-2.damaged",
                                      "step-00000400.damaged", "step-00000500.partial", "step-00000600"));
  const std::vector<CheckpointState> states = {
      CheckpointState::complete,  CheckpointState::complete, CheckpointState::damaged,   CheckpointState::set_aside,
      CheckpointState::set_aside, CheckpointState::partial,  CheckpointState::unreadable};
  const std::vector<int> ranks = {1, 3, 0, 2, 1, 0, 0};
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].state, states[i]) << all[i].name;
    EXPECT_EQ(all[i].ranks, ranks[i]) << all[i].name;
    int64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(root.path() / all[i].name))
      bytes += static_cast<int64_t>(fs::file_size(file));
    EXPECT_EQ(all[i].bytes, bytes) << all[i].name;
    EXPECT_EQ(all[i].own_bytes, bytes) << all[i].name;
  }
  EXPECT_EQ(all[5].bytes, 4);
  EXPECT_THAT(all[2].problem, HasSubstr("rank-00001.safetensors is damaged: it has 10 bytes instead of"));
  EXPECT_THAT(all[6].problem, HasSubstr("written by another version"));
  for (const size_t i : {0U, 1U, 3U, 4U, 5U}) EXPECT_EQ(all[i].problem, "") << all[i].name;
}

TEST(ListCheckpoints, CountsWhatIsItsOwn) {
  const TemporaryDirectory root;
  const fs::path folder = save(root.path(), 1, GlobalValues(odd_tensors(), 3), 2);
  const auto shared = static_cast<int64_t>(fs::file_size(folder / "rank-00001.safetensors"));
  fs::create_hard_link(folder / "rank-00001.safetensors", root / "elsewhere");
  const ListedCheckpoint listed = list_checkpoints(root.path()).at(0);
  EXPECT_EQ(listed.own_bytes, listed.bytes - shared);
}

TEST(ListCheckpoints, TheTimeIsThatOfTheManifest) {
  const TemporaryDirectory root;
  const fs::path folder = save(root.path(), 1, GlobalValues(odd_tensors(), 3), 1);
  const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder / "manifest.json").c_str(), times, 0), 0);
  EXPECT_EQ(list_checkpoints(root.path()).at(0).written, 1'000'000'000);
}

TEST(ListCheckpoints, OfWhatIsNotThereIsAnError) {
  const TemporaryDirectory root;
  EXPECT_THAT(list_checkpoints(root.path()), IsEmpty());
  EXPECT_THAT(error_message([&] { (void)list_checkpoints(root / "nowhere"); }),
              HasSubstr("cannot list the checkpoints in " + (root / "nowhere").string()));
}

TEST(ListingTable, IsALinePerCheckpoint) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const std::vector<ListedCheckpoint> all = {
      {.name = "step-00000100", .step = 100, .written = 1'000'000'000, .bytes = 4096, .own_bytes = 1024, .ranks = 12},
      {.name = "step-00000200-2.damaged",
       .step = 200,
       .state = CheckpointState::set_aside,
       .written = 1'000'003'600,
       .bytes = 5120,
       .own_bytes = 5120,
       .ranks = 2},
      {.name = "step-00000300", .step = 300, .state = CheckpointState::damaged, .problem = "it is cut short"}};
  EXPECT_EQ(listing_table(all),
            "checkpoint               written                    size         own  ranks  state\n"
            "step-00000100            2001-09-09 01:46:40     4.0 KiB     1.0 KiB     12  complete\n"
            "step-00000200-2.damaged  2001-09-09 02:46:40     5.0 KiB     5.0 KiB      2  set aside\n"
            "step-00000300            -                           0 B         0 B      -  damaged: it is cut short\n");
  EXPECT_EQ(to_json(all[0]).dump(),
            R"({"name":"step-00000100","step":100,"state":"complete","written":1000000000,"bytes":4096,)"
            R"("own_bytes":1024,"ranks":12})");
  EXPECT_EQ(to_json(all[2]).dump(),
            R"({"name":"step-00000300","step":300,"state":"damaged","problem":"it is cut short","bytes":0,)"
            R"("own_bytes":0})");
}

}  // namespace
}  // namespace partita::internal
