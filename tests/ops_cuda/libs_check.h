// The parts of libs_check.
#pragma once
#include "tests/ops_cuda/check.h"

namespace partita::internal::ops_cuda {

void check_products(Report&);
void check_attention(Report&);
void check_attention_at_start(Report&);
void check_attention_dropout(Report&);
void check_attention_cached(Report&);
void check_fp8(Report&);
void time_products();
void time_fp8();
void time_attention();

// Prints microseconds (the median of 20 calls, each between events) and TFLOP/s.
void time_flops(const std::string& name, double flops, const std::function<void()>& run);

}  // namespace partita::internal::ops_cuda
