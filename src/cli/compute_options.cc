#include "cli/compute_options.h"

#include "cli/options.h"

namespace partita::cli {
using namespace internal;

void add_compute_options(CLI::App& command, ComputeArguments& arguments) {
  add_choice(command, "--precision", arguments.precision, {"fp32", "bf16", "fp16"}, "Compute precision");
  add_choice(command, "--device", arguments.device, {"auto", "cpu", "cuda"}, "Device; auto: a GPU if there is one");
}

}  // namespace partita::cli
