#include "partita/ops/precision_note.h"

#include "partita/ops/cpu/products.h"

namespace partita::internal {

std::string precision_note(DType compute, bool bf16_instructions) {
  if (compute == DType::bf16 && !bf16_instructions)
    return "precision bf16 saves memory but no time here: this CPU has no bf16 instructions (AVX512_BF16 or AMX), so "
           "matrix products are computed in fp32";
  if (compute == DType::fp16)
    return bf16_instructions ? "precision fp16 saves memory but no time on CPUs: matrix products are computed in fp32; "
                               "bf16 is faster on this CPU"
                             : "precision fp16 saves memory but no time on CPUs: matrix products are computed in fp32";
  return {};
}

std::string cpu_precision_note(DType compute) { return precision_note(compute, cpu_matmul_support().bf16); }

}  // namespace partita::internal
