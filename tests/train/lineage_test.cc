#include "partita/train/lineage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

TEST(Lineage, ComesBackAsWritten) {
  const TemporaryDirectory run;
  EXPECT_EQ(read_lineage(run.path()), Lineage{});
  for (const Lineage& lineage :
       {Lineage{}, Lineage{.parent_checkpoint = "/a b/\"x\"/step-00000010", .parent_named = "/a b", .parent_step = 10},
        Lineage{.resumed_at = 60},
        Lineage{.rewinds = {{.from = 60, .to = 40, .kept = "rewound"}, {.from = 50, .to = 40, .kept = "rewound-2"}}}}) {
    write_lineage(run.path(), lineage);
    EXPECT_EQ(read_lineage(run.path()), lineage);
  }
}

TEST(Lineage, DamageIsNamed) {
  const TemporaryDirectory run;
  for (const char* text : {"", "{", "[]", "{\"rewinds\": 3}", "{\"rewinds\": [], \"parent\": {}}",
                           "{\"rewinds\": [], \"resumed_at\": \"x\"}"}) {
    write_file(run / "lineage.json", text);
    EXPECT_THAT(error_message([&] { (void)read_lineage(run.path()); }),
                testing::HasSubstr("lineage.json cannot be used"))
        << text;
  }
}

}  // namespace
}  // namespace partita::internal
