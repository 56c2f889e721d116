#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/normal.h"

namespace partita::internal::cuda {
namespace {

#define PARTITA_NORMAL_INLINE __device__ __forceinline__
#include "partita/ops/normal_steps-inl.h"
#undef PARTITA_NORMAL_INLINE

// Per-thread arithmetic for normal_steps-inl.h: each operation rounds to nearest and is never fused by the compiler.
struct ThreadMath {
  using Real = double;
  using Bits = uint64_t;

  static __device__ __forceinline__ Real set(double x) { return x; }
  static __device__ __forceinline__ Bits word(uint64_t x) { return x; }
  static __device__ __forceinline__ Real add(Real a, Real b) { return __dadd_rn(a, b); }
  static __device__ __forceinline__ Real sub(Real a, Real b) { return __dsub_rn(a, b); }
  static __device__ __forceinline__ Real mul(Real a, Real b) { return __dmul_rn(a, b); }
  static __device__ __forceinline__ Real div(Real a, Real b) { return __ddiv_rn(a, b); }
  static __device__ __forceinline__ Real sqrt(Real a) { return __dsqrt_rn(a); }
  static __device__ __forceinline__ Real fma(Real a, Real b, Real c) { return __fma_rn(a, b, c); }
  static __device__ __forceinline__ Bits plus(Bits a, Bits b) { return a + b; }
  static __device__ __forceinline__ Bits both(Bits a, Bits b) { return a & b; }
  template <int n>
  static __device__ __forceinline__ Bits right(Bits a) {
    return a >> n;
  }
  template <int n>
  static __device__ __forceinline__ Bits left(Bits a) {
    return a << n;
  }
  static __device__ __forceinline__ Bits bits(Real a) { return static_cast<Bits>(__double_as_longlong(a)); }
  static __device__ __forceinline__ Real from_bits(Bits a) { return __longlong_as_double(static_cast<long long>(a)); }
  static __device__ __forceinline__ Real real(Bits a) { return static_cast<double>(a); }
  static __device__ __forceinline__ Real flip(Real a, Bits sign) { return from_bits(bits(a) ^ sign); }
  static __device__ __forceinline__ Real odd(Bits a, Real yes, Real no) { return (a & 1) != 0 ? yes : no; }
};

// Each thread generates the four numbers of one Philox block and writes those that belong to out.
template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    normal_kernel(T* out, int64_t n, PhiloxKey key, int64_t first, float mean, float std) {
  const int64_t block = first / 4 + int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t at = 4 * block - first;  // index in out of its first number; the first block may start before out
  if (at >= n) return;
  const PhiloxBlock words =
      philox({static_cast<uint32_t>(block), static_cast<uint32_t>(static_cast<uint64_t>(block) >> 32), 0, 0}, key);
  float x[4];
#pragma unroll
  for (int pair = 0; pair < 4; pair += 2) {
    const Normals<ThreadMath> two = box_muller<ThreadMath>(words[pair], words[pair + 1]);
    x[pair] = __fmaf_rn(__double2float_rn(two.first), std, mean);
    x[pair + 1] = __fmaf_rn(__double2float_rn(two.second), std, mean);
  }
  if constexpr (kAligned) {
    if (at + 4 <= n) return store<true>(out + at, narrow<T>(x), 4);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (at + i >= 0 && at + i < n) out[at + i] = static_cast<T>(x[i]);
}

}  // namespace

void fill_normal(at::Tensor out, const NormalSequence& s) {
  const int64_t n = out.numel();
  check_tensor(out, "out", {n}, check_activation(out, "out"));
  PARTITA_CHECK(s.first >= 0, "first element {}, expected at least 0", s.first);
  if (n == 0) return;
  const int64_t blocks = divide_up(s.first + n, 4) - s.first / 4;
  with_type(out.scalar_type(), [&]<class T>(T) {
    with_bool(aligned(out) && s.first % 4 == 0, [&]<class Aligned>(Aligned) {
      normal_kernel<T, Aligned::value><<<blocks_for(blocks), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
          out.mutable_data_ptr<T>(), n, s.key, s.first, s.mean, s.std);
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace partita::internal::cuda
