// Reads the step metrics that a run wrote.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace partita::internal::test {

// The lines of metrics.jsonl by key, without what depends on the clock and what is null.
std::vector<std::map<std::string, double>> metrics(const std::filesystem::path& run);

// The same steps and learning rates; losses and gradient norms within the tolerance, which is relative.
void expect_same_run(const std::filesystem::path& found, const std::filesystem::path& expected, double tolerance);

}  // namespace partita::internal::test
