#include "partita/ops/cpu/wide_matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "partita/ops/cpu/onednn.h"
#include "partita/ops/cpu/products.h"
#include "partita/ops/cpu/scratch.h"

namespace partita::internal {
namespace {

// Rows and columns per block: large enough that widening costs little compared with the matmul, small enough for
// caches.
constexpr int64_t kBlock = 1024;

struct WideLeft;
struct WideRight;
struct WideProduct;

template <class Purpose>
at::Tensor scratch_matrix(int64_t rows, int64_t columns) {
  return at::from_blob(scratch<float, Purpose>(rows * columns), {rows, columns}, at::TensorOptions(at::kFloat));
}

// A block of a matrix in fp32; keeps a column-major layout.
template <class Purpose>
at::Tensor widened(const at::Tensor& matrix, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const at::Tensor block = matrix.narrow(0, row, rows).narrow(1, column, columns);
  if (matrix.stride(1) == 1) return scratch_matrix<Purpose>(rows, columns).copy_(block);
  return scratch_matrix<Purpose>(columns, rows).copy_(block.t()).t();
}

}  // namespace

void matmul_fp32(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale) {
  if (cpu_matmul_support().onednn_fp32) return at::native::mkldnn_matmul(a, b, y, accumulate ? 1.0F : 0.0F, scale);
  at::Tensor out = y;
  if (!accumulate && scale == 1) {
    at::mm_out(out, a, b);
  } else {
    at::addmm_out(out, y, a, b, accumulate ? 1 : 0, scale);
  }
}

void wide_matmul(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale) {
  const int64_t M = y.size(0), N = y.size(1), K = a.size(1);
  const bool direct = y.scalar_type() == at::kFloat;
  for (int64_t m = 0; m < M; m += kBlock)
    for (int64_t n = 0; n < N; n += kBlock) {
      const int64_t rows = std::min(kBlock, M - m), columns = std::min(kBlock, N - n);
      const at::Tensor to = y.narrow(0, m, rows).narrow(1, n, columns);
      const at::Tensor sum = direct ? to : scratch_matrix<WideProduct>(rows, columns);
      if (accumulate && !direct) sum.copy_(to);
      for (int64_t k = 0; k < K; k += kBlock) {
        const int64_t depth = std::min(kBlock, K - k);
        const at::Tensor left = widened<WideLeft>(a, m, rows, k, depth);
        matmul_fp32(sum, left, widened<WideRight>(b, k, depth, n, columns), accumulate || k > 0, scale);
      }
      if (!direct) to.copy_(sum);
    }
}

}  // namespace partita::internal
