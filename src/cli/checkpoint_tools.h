// The subcommands of `partita checkpoint` that compare, rewrite and remove checkpoints, each in its own file.
#pragma once
#include <CLI/CLI.hpp>

namespace partita::cli {
void add_checkpoint_list_command(CLI::App& parent);
void add_checkpoint_diff_command(CLI::App& parent);
void add_checkpoint_prune_command(CLI::App& parent);
void add_checkpoint_convert_command(CLI::App& parent);

}  // namespace partita::cli
