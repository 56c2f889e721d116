#include "partita/ops/attention_self_check.h"

#ifdef PARTITA_CUDA
#include "partita/device/scalar_type.h"
#include "partita/ops/cuda/attention_self_check.h"
#include "partita/ops/deterministic.h"
#endif

namespace partita::internal {

void attention_self_check([[maybe_unused]] at::Device device, [[maybe_unused]] DType dtype,
                          [[maybe_unused]] int64_t samples, [[maybe_unused]] int64_t length,
                          [[maybe_unused]] Heads heads, [[maybe_unused]] const ContextSplit& context) {
#ifdef PARTITA_CUDA
  if (device.is_cuda() && dtype != DType::fp32)
    cuda::attention_self_check(scalar_type(dtype), samples, length, heads, is_deterministic(), context);
#endif
}

int64_t reserve_workspace([[maybe_unused]] at::Device device, [[maybe_unused]] DType dtype,
                          [[maybe_unused]] int64_t samples, [[maybe_unused]] int64_t length,
                          [[maybe_unused]] Heads heads, [[maybe_unused]] float dropout,
                          [[maybe_unused]] const ContextSplit& context) {
#ifdef PARTITA_CUDA
  if (device.is_cuda())
    return cuda::reserve_workspace(scalar_type(dtype), samples, length, heads, dropout, is_deterministic(), context);
#endif
  return 0;
}

}  // namespace partita::internal
