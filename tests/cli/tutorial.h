// Runs the commands of a tutorial in docs/, block by block.
//
//   class Tutorial : public ShellTest {};
//   for (const std::string& block : shell_blocks(read_file("docs/data.md"))) must(block);
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {

// The text of each ```sh block.
inline std::vector<std::string> shell_blocks(const std::string& markdown) {
  std::vector<std::string> blocks;
  std::istringstream lines(markdown);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!inside && line == "```sh") {
      inside = true;
      blocks.emplace_back();
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

class ShellTest : public testing::Test {
 protected:
  // In the folder, with the program on the path; ends at the first command that fails.
  Result shell(const std::string& commands) {
    const std::string path = std::filesystem::path(PARTITA_PROGRAM).parent_path().string() + ":" + getenv("PATH");
    return Process({"bash", "-euo", "pipefail", "-c", "cd '" + folder_.path().string() + "'\n" + commands},
                   {{"OMP_NUM_THREADS", "1"}, {"PATH", path}})
        .end(std::chrono::seconds(120));
  }
  void must(const std::string& commands) {
    const Result r = shell(commands);
    ASSERT_EQ(r.code, 0) << commands << r.error << r.output;
  }

  TemporaryDirectory folder_;
};

}  // namespace partita::internal::test
