// `partita dataset index`, a subcommand of `partita dataset`.
#pragma once
#include <CLI/CLI.hpp>

namespace partita::cli {
void add_dataset_index_command(CLI::App& parent);

}  // namespace partita::cli
