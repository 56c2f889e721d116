#include "tests/cli/run_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace partita::internal::test {

namespace fs = std::filesystem;

std::vector<std::string> long_run(int ranks, const fs::path& run) {
  return command_line(
      train_command(ranks, run, {"--train.steps=100000", "--checkpoint.every=0", "--eval.every=0", "--log.every=1"}));
}

bool has_steps(const Process& process, int step) {
  return process.seen().output.find(fmt::format("iteration {:8d}/", step)) != std::string::npos;
}

void make_run(const fs::path& run, const std::vector<std::string>& options) {
  std::vector<std::string> all = {"--checkpoint.keep_last=0"};
  all.insert(all.end(), options.begin(), options.end());
  const Result r = partita(train_command(1, run, all));
  ASSERT_EQ(r.code, 0) << r.error;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace partita::internal::test
