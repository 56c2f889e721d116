// Runs the commands of a tutorial in docs/, block by block.
//
//   class Tutorial : public ShellTest {};
//   for (const std::string& block : shell_blocks(read_file("docs/data.md"))) must(block);
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {

// The text of each ```sh block.
std::vector<std::string> shell_blocks(const std::string& markdown);

class ShellTest : public testing::Test {
 protected:
  // In the folder, with the program on the path; ends at the first command that fails.
  Result shell(const std::string& commands);
  void must(const std::string& commands);

  TemporaryDirectory folder_;
};

}  // namespace partita::internal::test
