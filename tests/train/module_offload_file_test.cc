#include "partita/train/module_offload_file.h"

#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OffloadFile : public testing::Test {
 protected:
  Offload read(const std::string& text) {
    write_file(folder_ / "run.toml", text);
    return read_offload(folder_ / "run.toml");
  }
  std::string refused(const std::string& text) {
    return error_message([&] { (void)read(text); });
  }
  TemporaryDirectory folder_;
};

TEST_F(OffloadFile, IsThatOfAConfiguration) {
  const Offload both = read("[memory]\noptimizer = \"host:0.3,disk:0.7\"\ndisk_folder = \"/nvme/x\"\n");
  EXPECT_EQ(both.optimizer, 0.3);
  EXPECT_EQ(both.disk, 0.7);
  EXPECT_EQ(both.disk_folder, "/nvme/x");
  EXPECT_EQ(both.activations, 0);
  const Offload host = read("[memory]\noptimizer = \"host\"\n[model]\nlayers = 3\n");
  EXPECT_EQ(host.optimizer, 1);
  EXPECT_EQ(host.disk, 0);
  EXPECT_EQ(read("[memory]\n").optimizer, 0);
  EXPECT_EQ(read("[memory]\noptimizer = \"device\"\n").optimizer, 0);
  EXPECT_EQ(read("[memory]\noptimizer = \"disk\"\n[run]\ndirectory = \"runs/a\"\n").disk_folder, "runs/a");
}

TEST_F(OffloadFile, OtherValuesAreErrorsWithTheirLine) {
  EXPECT_THAT(refused("[memory]\n\noptimizer = \"host:1.5\"\n"),
              AllOf(HasSubstr("run.toml:3: memory.optimizer: "), HasSubstr("\"host:1.5\", expected \"device\"")));
  EXPECT_THAT(refused("[memory]\noptimizer = \"host:0.6,disk:0.6\"\ndisk_folder = \"a\"\n"),
              HasSubstr("fractions of at most 1 together"));
  EXPECT_THAT(refused("[memory]\noptimizer = 0.6\n"), HasSubstr("run.toml:2: memory.optimizer: expected a string"));
  EXPECT_THAT(refused("[memory]\ndisk_folder = 1\n"), HasSubstr("run.toml:2: memory.disk_folder: expected a string"));
  EXPECT_THAT(refused("[memory]\noptimizer = \"host\"\nrecompute = \"full\"\n"),
              AllOf(HasSubstr("run.toml:3: memory.recompute: expected optimizer and disk_folder alone"),
                    HasSubstr("recompute()")));
  EXPECT_THAT(refused("[memory]\noptimizer = \"disk:0.5\"\n"),
              HasSubstr("there is neither memory.disk_folder nor run.directory"));
  EXPECT_THAT(refused("[model]\nlayers = 3\n"), HasSubstr("no table [memory]"));
  EXPECT_THAT(refused("[memory\n"), HasSubstr("run.toml:1"));
  EXPECT_THAT(error_message([&] { (void)read_offload(folder_ / "none.toml"); }), HasSubstr("none.toml"));
}

}  // namespace
}  // namespace partita::internal
