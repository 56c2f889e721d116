// Options of commands that compute with a trained model: where, and in what precision.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace partita::cli {
struct ComputeArguments {
  std::string precision = "fp32", device = "auto";  // as parse_dtype and parse_device read them
};

// --precision, --device. `arguments` outlives the command.
void add_compute_options(CLI::App& command, ComputeArguments& arguments);

}  // namespace partita::cli
