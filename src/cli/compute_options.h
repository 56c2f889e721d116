// Options of commands that run a trained model: device and precision.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace partita::cli {
struct ComputeArguments {
  std::string precision = "fp32", device = "auto";  // parsed by parse_dtype and parse_device
};

// Adds --precision and --device. `arguments` must outlive the command.
void add_compute_options(CLI::App& command, ComputeArguments& arguments);

}  // namespace partita::cli
