// Matmuls of small row-major tiles within one thread, using oneDNN's micro-kernels through ATen: as fast as a large
// matmul from 32 x 64 x 64 on.
//
//   tile_matmul(M, N, K, a, lda, b, ldb, c, ldc, add);   // c [M, N] fp32 (+)= a [M, K] b [K, N]
//
// bf16: K is even and b holds pairs of its rows, [K / 2][N][2], as dot-product instructions require; ldb counts
// columns.
#pragma once
#include <ATen/native/CPUBlas.h>

namespace partita::internal {

inline void tile_matmul(int64_t M, int64_t N, int64_t K, const float* a, int64_t lda, const float* b, int64_t ldb,
                        float* c, int64_t ldc, bool add) {
  at::native::cpublas::brgemm(M, N, K, lda, ldb, ldc, add, a, b, c, /*is_vnni=*/false);
}
inline void tile_matmul(int64_t M, int64_t N, int64_t K, const at::BFloat16* a, int64_t lda, const at::BFloat16* b,
                        int64_t ldb, float* c, int64_t ldc, bool add) {
  at::native::cpublas::brgemm(M, N, K, lda, ldb, ldc, add, a, b, c, /*is_vnni=*/true);
}
// Call after a thread's last matmul: releases the AMX tile registers.
inline void tile_matmul_done(float) { at::native::cpublas::brgemm_release(/*is_vnni=*/false); }
inline void tile_matmul_done(at::BFloat16) { at::native::cpublas::brgemm_release(/*is_vnni=*/true); }

}  // namespace partita::internal
