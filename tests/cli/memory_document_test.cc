// docs/memory.md: its commands run, and its table is what the program says.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "partita/base/file.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

class MemoryDocument : public ShellTest {};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" `"), end = text.find_last_not_of(" `");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

TEST_F(MemoryDocument, SaysWhatTheProgramSays) {
  const std::string document = read_file(PARTITA_SOURCE_DIR "/docs/memory.md");
  for (const std::string& block : shell_blocks(document)) must(block);
  const std::string head = "| with | device | host |\n|---|---|---|\n";
  const size_t begin = document.find(head);
  ASSERT_NE(begin, std::string::npos);
  std::istringstream rows(document.substr(begin + head.size()));
  int count = 0;
  for (std::string row; std::getline(rows, row) && row.starts_with("|"); ++count) {
    std::istringstream cells(row.substr(1));
    std::string options, device, host;
    std::getline(cells, options, '|'), std::getline(cells, device, '|'), std::getline(cells, host, '|');
    const Result r = shell("partita plan gpt2-xl.toml --json " + trimmed(options));
    ASSERT_EQ(r.code, 0) << r.error;
    const nlohmann::json stage = nlohmann::json::parse(r.output)["stages"][0];
    EXPECT_EQ(trimmed(device), human_bytes(stage["device"])) << row;
    EXPECT_EQ(trimmed(host), stage["host"] == 0 ? "0" : human_bytes(stage["host"])) << row;
  }
  EXPECT_EQ(count, 7);
}

}  // namespace
}  // namespace partita::internal::test
