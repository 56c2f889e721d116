// Instruction sets that CPU kernels are compiled for: AVX-512, AVX2, and Highway's portable code as a fallback. Each
// additional one costs compile time in every file, and machines used for training have no sets in between.
// Include before any Highway header.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#include "partita/ops/cpu/isa_limit.h"

namespace partita::internal {

// Defined in every file with kernels, so that every program honors the limit: runs once, before main.
inline const bool kIsaLimitApplied = apply_isa_limit();

}  // namespace partita::internal
