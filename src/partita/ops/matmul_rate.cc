#include "partita/ops/matmul_rate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "partita/base/timer.h"
#include "partita/device/scalar_type.h"
#include "partita/ops/matmul.h"

namespace partita::internal {

double matmul_rate(DType dtype) {
  constexpr int64_t kSize = 768;
  constexpr int kTries = 8;
  const auto type = scalar_type(dtype);
  const at::Tensor a = at::ones({kSize, kSize}, type), b = at::ones({kSize, kSize}, type);
  at::Tensor c = at::empty({kSize, kSize}, type);
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const Timer timer;
    linear_forward(c, a, b);
    best = std::max(best, 2.0 * kSize * kSize * kSize / timer.seconds());
  }
  return best;
}

}  // namespace partita::internal
