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
  EXPECT_EQ(count, 11);
}

// Each block of output is what the command before it prints.
TEST_F(MemoryDocument, ShowsWhatTheProgramPrints) {
  const std::string document = read_file(PARTITA_SOURCE_DIR "/docs/memory.md");
  for (const std::string& block : shell_blocks(document)) must(block);
  constexpr std::string_view kBegin = "```text\n", kEnd = "```\n";
  int count = 0;
  for (size_t at = document.find(kBegin); at != std::string::npos; at = document.find(kBegin, at), ++count) {
    const size_t end_of_command = document.rfind('`', at - 1), command = document.rfind('`', end_of_command - 1) + 1;
    const std::string line = document.substr(command, end_of_command - command);
    ASSERT_TRUE(line.starts_with("partita plan ")) << line;
    at += kBegin.size();
    const std::string shown = document.substr(at, document.find(kEnd, at) - at);
    const Result r = shell(line);
    EXPECT_THAT(r.output + r.error, testing::HasSubstr(shown)) << line;
  }
  EXPECT_EQ(count, 3);
}

// The rates in the table are those that a plan takes.
TEST_F(MemoryDocument, NamesTheRates) {
  const std::string document = read_file(PARTITA_SOURCE_DIR "/docs/memory.md");
  for (const std::string& block : shell_blocks(document)) must(block);
  const auto rates = [this](const std::string& device) {
    const Result r = shell("partita plan gpt2-xl.toml --json --precision.compute=bf16 --train.device=" + device);
    return nlohmann::json::parse(r.output)["step"]["resources"];
  };
  const nlohmann::json gpu = rates("cuda"), cpu = rates("cpu");
  const std::pair<const char*, const char*> options[] = {{"--device-memory", "device_memory"},
                                                         {"--link", "link"},
                                                         {"--host-memory", "host_memory"},
                                                         {"--disk", "disk"},
                                                         {"--network", "network"}};
  for (const auto& [option, key] : options) {
    const size_t row = document.find(std::string("| `") + option + "` |");
    ASSERT_NE(row, std::string::npos) << option;
    std::istringstream cells(document.substr(row + 1));
    std::string name, meaning;
    std::getline(cells, name, '|'), std::getline(cells, meaning, '|');
    double on_gpu = 0, on_cpu = 0;
    std::string text;
    std::getline(cells, text, '|');
    on_gpu = std::stod(text);
    std::getline(cells, text, '|');
    on_cpu = std::stod(text);
    EXPECT_EQ(gpu[key]["rate"], 1e9 * on_gpu) << option;
    EXPECT_EQ(cpu[key]["rate"], 1e9 * on_cpu) << option;
  }
  EXPECT_EQ(gpu["compute"]["rate"], 700e12);
}

}  // namespace
}  // namespace partita::internal::test
