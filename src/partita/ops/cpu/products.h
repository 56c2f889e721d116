// Capabilities of the CPU matmul libraries, determined once by running a small matmul of each kind, since only the
// libraries know which instructions their kernels need.
//
//   if (cpu_matmul_support().bf16) ...   // multiply bf16 directly; else widen to fp32
#pragma once

namespace partita::internal {

struct CpuProducts {
  bool bf16 = false;         // oneDNN has native bf16 matmuls (AVX512_BF16, AMX)
  bool onednn_fp32 = false;  // ATen uses oneDNN for fp32 (AVX-512); else MKL
};

// Error: PARTITA_MAX_ISA (isa_limit.h) has an unknown value.
[[nodiscard]] const CpuProducts& cpu_matmul_support();

}  // namespace partita::internal
