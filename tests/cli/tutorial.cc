#include "tests/cli/tutorial.h"

#include <cstdlib>
#include <sstream>

namespace partita::internal::test {

std::vector<std::string> shell_blocks(const std::string& markdown) {
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

Result ShellTest::shell(const std::string& commands) {
  const std::string path = std::filesystem::path(PARTITA_PROGRAM).parent_path().string() + ":" + getenv("PATH");
  return Process({"bash", "-euo", "pipefail", "-c", "cd '" + folder_.path().string() + "'\n" + commands},
                 {{"OMP_NUM_THREADS", "1"}, {"PATH", path}})
      .end(std::chrono::seconds(120));
}

void ShellTest::must(const std::string& commands) {
  const Result r = shell(commands);
  ASSERT_EQ(r.code, 0) << commands << r.error << r.output;
}

}  // namespace partita::internal::test
