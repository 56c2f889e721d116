// Checks matmuls (cuBLASLt) and attention (cuDNN and plain kernels) on a device against the CPU kernels in fp32, then
// times them.
//
//   libs_check            # both
//   libs_check check      # only the checks (under compute-sanitizer, say)
//   libs_check check 7    # with other random numbers: seed 7
//   libs_check time
#include <ATen/Context.h>
#include <fmt/format.h>

#include <string>

#include "tests/ops_cuda/libs_check.h"

int main(int count, char** arguments) {
  using namespace partita::internal::ops_cuda;
  const std::string what = count > 1 ? arguments[1] : "";
  at::globalContext().lazyInitDevice(at::kCUDA);
  try {
    seed_numbers(count, arguments);
    Report report;
    if (what != "time") {
      check_products(report);
      check_fp8(report);
      check_attention(report);
      check_attention_at_start(report);
      check_attention_dropout(report);
      check_attention_cached(report);
    }
    if (what != "check") {
      time_products();
      time_fp8();
      time_attention();
    }
    return report.finish();
  } catch (const std::exception& error) {
    fmt::print("FAIL stopped: {}\n", error.what());
    return 1;
  }
}
