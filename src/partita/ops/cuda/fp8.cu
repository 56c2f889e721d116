#include "partita/ops/cuda/fp8.h"

#include <cuda_fp8.h>

#include "partita/ops/cuda/amax.cuh"
#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/launch.h"

namespace partita::internal::cuda {
namespace {

constexpr int kTile = 128;             // rows and columns of a block's tile
constexpr int kSide = 8;               // rows and columns of a thread's square
constexpr int kSides = kTile / kSide;  // squares across a tile
constexpr int kRowsAhead = 4;          // packs in flight per thread of measure_kernel
static_assert(kSides * kSides == kThreads, "a square a thread");

// fp8_scale() of ops/fp8.h.
template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ float scale_of(float amax) {
  constexpr int kHighest = kFormat == __NV_E4M3 ? 8 : 15;  // the largest value is 1.75 * 2^kHighest
  const uint32_t bits = __float_as_uint(amax);
  if (bits >= 0x7F800000U) return __uint_as_float(0x7FC00000U);
  if (bits == 0) return 1;
  // Subnormals yield an exponent of -127; the clamp below still holds.
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const int power = min(kHighest - exponent - ((bits & 0x7FFFFFU) > 0x600000U ? 1 : 0), 126);
  return __uint_as_float(static_cast<uint32_t>(power + 127) << 23);
}

// Four values as bytes, the first in the lowest byte.
template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ uint32_t quantize(const float* x, float scale) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2({x[0] * scale, x[1] * scale}, __NV_SATFINITE, kFormat);
  const uint32_t high = __nv_cvt_float2_to_fp8x2({x[2] * scale, x[3] * scale}, __NV_SATFINITE, kFormat);
  return low | high << 16;
}

// Transposes a 4 x 4 block of bytes.
__device__ __forceinline__ void transpose(uint32_t (&row)[4]) {
  const uint32_t a = __byte_perm(row[0], row[1], 0x5140), b = __byte_perm(row[2], row[3], 0x5140);
  const uint32_t c = __byte_perm(row[0], row[1], 0x7362), d = __byte_perm(row[2], row[3], 0x7362);
  row[0] = __byte_perm(a, b, 0x5410), row[1] = __byte_perm(a, b, 0x7632);
  row[2] = __byte_perm(c, d, 0x5410), row[3] = __byte_perm(c, d, 0x7632);
}

struct Quantize {
  uint8_t *rows, *columns;  // either may be null
  float* scale;
  float* measured;  // may be null
  int64_t R, C;
};

// One tile per block, one 8 x 8 square per thread: read and written by rows, transposed in registers, and written by
// columns from shared memory, so that both outputs are written in full 128-byte lines.
template <class T, __nv_fp8_interpretation_t kFormat, bool kColumns>
__global__ void __launch_bounds__(kThreads) quantize_kernel(const T* x, const Quantize q) {
  // Column c of the tile; its 8-byte piece from rows 8 p .. is stored at p ^ (c / 8), which spreads a warp over all
  // banks.
  __shared__ alignas(16) uint2 turned[kColumns ? kTile : 1][kSides];
  const unsigned square = threadIdx.x % kSides, strip = threadIdx.x / kSides;
  const int64_t row = int64_t{blockIdx.y} * kTile + strip * kSide,
                column = int64_t{blockIdx.x} * kTile + square * kSide;
  const float amax = q.scale[0];
  const bool here = row < q.R && column < q.C;  // all or none: R and C are multiples of 16
  Pack<T, kSide> packs[kSide];
  if (here) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) packs[r] = load<true, kSide>(x + (row + r) * q.C + column, kSide);
  }
  const float scale = scale_of<kFormat>(amax);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) q.scale[kFp8Inverse] = 1 / scale;
  uint32_t left[kSide], right[kSide];
  if (here) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      float value[kSide];
      widen(packs[r], value);
      left[r] = quantize<kFormat>(value, scale);
      right[r] = quantize<kFormat>(value + 4, scale);
      if (q.rows != nullptr)
        *reinterpret_cast<uint2*>(q.rows + (row + r) * q.C + column) = make_uint2(left[r], right[r]);
    }
  }
  if (q.measured != nullptr) {
    uint32_t largest = 0;
    if (here) {
#pragma unroll
      for (int r = 0; r < kSide; ++r) largest = larger(largest, packs[r]);
    }
    record_amax(q.measured, largest);
  }
  if constexpr (kColumns) {
    if (here) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t upper[4], lower[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          upper[r] = half == 0 ? left[r] : right[r];
          lower[r] = half == 0 ? left[4 + r] : right[4 + r];
        }
        transpose(upper);
        transpose(lower);
#pragma unroll
        for (int c = 0; c < 4; ++c)
          turned[square * kSide + 4 * half + c][strip ^ square] = make_uint2(upper[c], lower[c]);
      }
    }
    __syncthreads();
    const int64_t first_row = int64_t{blockIdx.y} * kTile, first_column = int64_t{blockIdx.x} * kTile;
#pragma unroll
    for (int i = 0; i < kTile * kSides / 2 / kThreads; ++i) {  // 16 bytes per thread and iteration
      const unsigned piece = i * kThreads + threadIdx.x, c = piece / (kSides / 2), pair = piece % (kSides / 2);
      if (first_column + c >= q.C || first_row + 16 * pair >= q.R) continue;
      const unsigned swap = c / kSide;
      uint4 both = reinterpret_cast<const uint4*>(turned[c])[pair ^ swap / 2];
      if (swap % 2 == 1) both = make_uint4(both.z, both.w, both.x, both.y);
      *reinterpret_cast<uint4*>(q.columns + (first_column + c) * q.R + first_row + 16 * pair) = both;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) measure_kernel(float* amax, const T* x, int64_t packs) {
  uint32_t largest = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t p = int64_t{blockIdx.x} * kThreads + threadIdx.x; p < packs; p += kRowsAhead * step) {
    Pack<T, 8> ahead[kRowsAhead];
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i)
      if (p + i * step < packs) ahead[i] = load<true, 8>(x + 8 * (p + i * step), 8);
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i)
      if (p + i * step < packs) largest = larger(largest, ahead[i]);
  }
  record_amax(amax, largest);
}

template <class T>
__global__ void __launch_bounds__(kThreads) measure_rest_kernel(float* amax, const T* x, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) largest = larger(largest, load<false, 8>(x + i, 1));
  record_amax(amax, largest);
}

}  // namespace

void fp8_measure(at::Tensor amax, at::Tensor x) {
  const at::ScalarType dtype = check_activation(x, "x");
  check_tensor(x, "x", x.sizes(), dtype);
  check_tensor(amax, "amax", {1}, at::kFloat);
  if (x.numel() == 0) return;
  with_type(dtype, [&]<class T>(T) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    const T* data = x.const_data_ptr<T>();
    const int64_t packs = aligned(x) ? x.numel() / 8 : 0, rest = x.numel() - 8 * packs;
    if (packs > 0) {
      static const int64_t resident = resident_blocks(measure_kernel<T>, kThreads);
      const int64_t blocks = std::min(resident, divide_up(packs, kThreads));
      measure_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(amax.mutable_data_ptr<float>(), data,
                                                                             packs);
    }
    if (rest > 0)
      measure_rest_kernel<<<1, kThreads, 0, stream>>>(amax.mutable_data_ptr<float>(), data + 8 * packs, rest);
  });
  PARTITA_LAUNCHED();
}

void fp8_quantize(at::Tensor rows, at::Tensor columns, at::Tensor scale, at::Tensor x, bool measure) {
  const at::ScalarType dtype = check_activation(x, "x"), format = (rows.defined() ? rows : columns).scalar_type();
  const int64_t R = x.size(0), C = x.size(1);
  check_tensor(x, "x", {R, C}, dtype);
  check_optional(rows, "rows", {R, C}, format);
  check_optional(columns, "columns", {C, R}, format);
  check_tensor(scale, "scale", {kFp8Scale}, at::kFloat);
  PARTITA_CHECK(aligned(x, rows, columns), "x, rows and columns must begin at multiples of 16 bytes");
  const Quantize arguments{.rows = rows.defined() ? static_cast<uint8_t*>(rows.mutable_data_ptr()) : nullptr,
                           .columns = columns.defined() ? static_cast<uint8_t*>(columns.mutable_data_ptr()) : nullptr,
                           .scale = scale.mutable_data_ptr<float>(),
                           .measured = measure ? scale.mutable_data_ptr<float>() + kFp8Measured : nullptr,
                           .R = R,
                           .C = C};
  const dim3 grid(static_cast<unsigned>(divide_up(C, kTile)), static_cast<unsigned>(divide_up(R, kTile)));
  const auto launch = [&]<class T, class Format, class Columns>(T, Format, Columns) {
    quantize_kernel<T, Format::value, Columns::value>
        <<<grid, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(x.const_data_ptr<T>(), arguments);
  };
  const auto with_format = [&]<class T>(T) {
    with_bool(columns.defined(), [&]<class Columns>(Columns) {
      if (format == at::kFloat8_e4m3fn)
        launch(T{}, std::integral_constant<__nv_fp8_interpretation_t, __NV_E4M3>{}, Columns{});
      else
        launch(T{}, std::integral_constant<__nv_fp8_interpretation_t, __NV_E5M2>{}, Columns{});
    });
  };
  dtype == at::kBFloat16 ? with_format(at::BFloat16{}) : with_format(at::Half{});
  PARTITA_LAUNCHED();
}

}  // namespace partita::internal::cuda
