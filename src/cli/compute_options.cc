#include "cli/compute_options.h"

void add_compute_options(CLI::App& command, ComputeArguments& arguments) {
  command.add_option("--precision", arguments.precision, "of the compute: fp32, bf16 or fp16")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command.add_option("--device", arguments.device, "cpu, cuda, or auto: a GPU where there is one")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
}
