#include <cuda_runtime_api.h>

#include "partita/ops/cuda/check.h"
#include "partita/ops/cuda/fp8.h"
#include "partita/ops/cuda/matmul_plan.h"

namespace partita::internal::cuda {

void check_fp8_device(at::Device device) {
  int major = 0, minor = 0;
  const int index = device.has_index() ? device.index() : 0;
  PARTITA_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  PARTITA_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
  if (10 * major + minor < 89)
    fail("fp8 needs a GPU of compute capability 8.9 or above, {} has {}.{}: use fp8 off", device.str(), major, minor);
}

void fp8_matmul(at::Tensor out, const Fp8& a, const Fp8& b, bool accumulate, at::Tensor bias) {
  const int64_t m = a.values.size(0), k = a.values.size(1), n = b.values.size(0);
  check_tensor(a.values, "a", {m, k}, a.values.scalar_type());
  check_tensor(b.values, "b", {n, k}, b.values.scalar_type());
  check_tensor(a.scale, "scale of a", {kFp8Scale}, at::kFloat);
  check_tensor(b.scale, "scale of b", {kFp8Scale}, at::kFloat);
  check_tensor(out, "out", {m, n}, check_activation(out, "out"));
  check_optional(bias, "bias", {n}, out.scalar_type());
  // BLAS is column-major: out^T = b a^T. Both operands already have the layout that Hopper's fp8 matmuls require.
  run_product({.dtype = b.values.scalar_type(),
               .out_dtype = out.scalar_type(),
               .dtype_b = a.values.scalar_type(),
               .m = n,
               .n = m,
               .k = k,
               .transposed_a = true,
               .row_a = k,
               .row_b = k,
               .row_out = n,
               .accumulate = accumulate,
               .epilogue = bias.defined() ? Epilogue::bias : Epilogue::none},
              {.a = b.values.const_data_ptr(),
               .b = a.values.const_data_ptr(),
               .out = out.mutable_data_ptr(),
               .bias = bias.defined() ? bias.const_data_ptr() : nullptr,
               .scale_a = b.scale.const_data_ptr<float>() + kFp8Inverse,
               .scale_b = a.scale.const_data_ptr<float>() + kFp8Inverse});
}

}  // namespace partita::internal::cuda
