#include "partita/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "partita/checkpoint/folders.h"
#include "tests/checkpoint/saving.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

// A mebibyte of its own.
class SmallDisk {
 public:
  SmallDisk() { mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") == 0; }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount(folder_.path().c_str());
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] const fs::path& path() const { return folder_.path(); }

 private:
  TemporaryDirectory folder_;
  bool mounted_ = false;
};

TEST(FullDisk, AFullDiskIsSeenBeforeWriting) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted";
  const GlobalValues values({{"w", {150'000}, DType::fp32}}, 9);
  const fs::path older = save(disk.path(), 10, values, 2);
  std::vector<RankMemory> layout = random_layout(values.tensors(), 2, 1);
  expect_failed_save(disk.path(), layout, "needed, ");
  EXPECT_EQ(find_latest(disk.path()), older);
  EXPECT_THAT(verify_checkpoint(older), IsEmpty());
}

// Another program fills the disk between the check of the free space, which rank 0 has made when it first gathers, and
// the writing.
class FillingPeers final : public Peers {
 public:
  FillingPeers(Peers& peers, fs::path file) : peers_(peers), file_(std::move(file)) {}
  [[nodiscard]] int rank() const override { return peers_.rank(); }
  [[nodiscard]] int size() const override { return peers_.size(); }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    if (rank() == 0 && calls_++ == 0) write_file(file_, std::string(600'000, 'x'));
    return peers_.gather(mine);
  }

 private:
  Peers& peers_;
  fs::path file_;
  int calls_ = 0;
};

TEST(FullDisk, ADiskThatFillsWhileWritingFailsOnAllRanks) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted";
  const GlobalValues small({{"w", {5}, DType::fp32}}, 9), large({{"w", {150'000}, DType::fp32}}, 9);
  const fs::path older = save(disk.path(), 10, small, 2);
  std::vector<RankMemory> layout = random_layout(large.tensors(), 2, 1);
  const auto errors = errors_of_ranks(2, [&](Peers& peers) {
    FillingPeers filling(peers, disk.path() / "other");
    save_checkpoint(disk.path(), 20, layout[static_cast<size_t>(peers.rank())].state, filling,
                    {.retention = {.keep_last = 1}});
  });
  EXPECT_THAT(errors, Each(HasSubstr("no space left")));
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_FALSE(fs::exists(disk.path() / "step-00000020.partial"));
  EXPECT_EQ(find_latest(disk.path()), older);
  EXPECT_THAT(verify_checkpoint(older), IsEmpty());
}

}  // namespace
}  // namespace partita::internal
