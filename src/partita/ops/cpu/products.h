// What the libraries that multiply matrices on this CPU can do. They are asked once, by a small product of each kind:
// which instructions a kernel of theirs needs is theirs to know.
//
//   if (cpu_products().bf16) ...   // multiply bf16 as it is; else widen to fp32
#pragma once

namespace partita::internal {

struct CpuProducts {
  bool bf16 = false;         // oneDNN multiplies bf16 by instructions of that type (AVX512_BF16, AMX)
  bool onednn_fp32 = false;  // ATen hands fp32 matrices to oneDNN (AVX-512); else MKL multiplies them
};

// Error: PARTITA_MAX_ISA (isa_limit.h) has an unknown value.
[[nodiscard]] const CpuProducts& cpu_products();

}  // namespace partita::internal
