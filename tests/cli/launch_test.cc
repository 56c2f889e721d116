// launch with programs of users: they get their arguments as written, and their rank from the environment.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "tests/cli/process.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Launch, StartsProgramsOfUsers) {
  // What mpirun would take for its own: an option of it, the end of a program's arguments, and an empty one.
  const Result r =
      partita({"launch", "-n", "2", "--", "/bin/sh", "-c",
               "printf '%s\\n' \"$OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE:$(printf ' <%s>' \"$@\")\"", "sh",
               "--tune", "-x", ":", "=a", "", "--stage=2"});
  ASSERT_EQ(r.code, 0) << r.error;
  std::vector<std::string> lines;
  std::istringstream output(r.output);
  for (std::string line; std::getline(output, line);) lines.push_back(line);
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"0 of 2: <--tune> <-x> <:> <=a> <> <--stage=2>",
                                             "1 of 2: <--tune> <-x> <:> <=a> <> <--stage=2>"}));
}

TEST(Launch, SaysHowProgramsOfUsersEnded) {
  const Result failed = partita({"launch", "-n", "2", "--", "/bin/sh", "-c", "exit 3"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.error, AllOf(HasSubstr(" of 2 failed (exit code 3, see above)")));
  // A run that was interrupted and saved.
  EXPECT_EQ(partita({"launch", "-n", "2", "--", "/bin/sh", "-c", "exit 75"}).code, 75);
}

}  // namespace
}  // namespace partita::internal::test
