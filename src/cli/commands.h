// One function per subcommand, each in its own file: adds the subcommand, its options and its help to the program.
#pragma once
#include <CLI/CLI.hpp>

namespace partita::cli {
void add_train_command(CLI::App&);
void add_launch_command(CLI::App&);
void add_tokenize_command(CLI::App&);
void add_tokenizer_command(CLI::App&);
void add_dataset_command(CLI::App&);
void add_checkpoint_command(CLI::App&);
void add_eval_command(CLI::App&);
void add_generate_command(CLI::App&);
void add_import_command(CLI::App&);
void add_export_command(CLI::App&);
void add_plot_command(CLI::App&);
void add_bench_command(CLI::App&);
void add_schedule_command(CLI::App&);
void add_plan_command(CLI::App&);

}  // namespace partita::cli
