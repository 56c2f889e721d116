// Runs whose folders tests look into, or that they end.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/small_run.h"

namespace partita::internal::test {

// The command of a run that does not end by itself, and logs every step.
std::vector<std::string> long_run(int ranks, const std::filesystem::path& run);
// Whether it has logged this step.
bool has_steps(const Process& process, int step);

// `run` with its checkpoints 4, 8 and 12 of 12 steps.
void make_run(const std::filesystem::path& run, const std::vector<std::string>& options = {});

// In alphabetical order.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace partita::internal::test
