// Checks the memory-bound kernels of ops/cuda against those of ops/cpu, then times them.
//
//   kernels_check            # both
//   kernels_check check      # only the checks (under compute-sanitizer, say)
//   kernels_check check 7    # with other random numbers: seed 7
//   kernels_check time
#include "tests/ops_cuda/kernels_check.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <string>

int main(int count, char** arguments) {
  using namespace partita::internal::ops_cuda;
  const std::string what = count > 1 ? arguments[1] : "";
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
    seed_numbers(count, arguments);
    Report report;
    if (what != "time") {
      check_norms(report);
      check_activations(report);
      check_rows(report);
      check_optimizers(report);
      check_normals(report);
    }
    if (what != "check") time_kernels();
    return report.finish();
  } catch (const std::exception& error) {
    fmt::print("FAIL stopped: {}\n", error.what());
    return 1;
  }
}
