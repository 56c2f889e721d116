// Plain attention: correct for every shape and dtype and bitwise reproducible; not the fast path.
//
// Each block has one query (for the gradients of keys and values: one key), whose vector is in shared memory. Its warps
// take turns at runs of 32 keys: first each lane computes the score of one key, then each lane adds up every 32nd
// channel of the weighted vectors. Results of the warps are combined in order. Scores, softmax and sums are fp32.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/cuda_error.h"
#include "partita/base/random.h"
#include "partita/ops/cuda/attention_plain.h"

namespace partita::internal::cuda {
namespace {

constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFF;

template <class T>
__device__ T* vector_of(const HeadVectors& all, int64_t sample, int64_t token, int64_t head) {
  return static_cast<T*>(all.data) + sample * all.sample + token * all.token + head * all.head;
}

__device__ float sum_of_warp(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}
__device__ float max_of_warp(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  return x;
}

template <class T>
__device__ float dot(const float* a, const T* b, int width, bool aligned) {
  float sum = 0;
  if (aligned) {
    constexpr int kCount = 16 / sizeof(T);
    struct alignas(16) Pack {
      T x[kCount];
    };
    for (int d = 0; d < width; d += kCount) {
      const Pack pack = *reinterpret_cast<const Pack*>(b + d);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum = fmaf(a[d + i], static_cast<float>(pack.x[i]), sum);
    }
  } else {
    for (int d = 0; d < width; ++d) sum = fmaf(a[d], static_cast<float>(b[d]), sum);
  }
  return sum;
}

// sums[c] += weight * row[lane + 32 c].
template <class T, int kChannels>
__device__ void add_row(float (&sums)[kChannels], float weight, const T* row, int width) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const int d = static_cast<int>(threadIdx.x) + kLanes * c;
    if (d < width) sums[c] = fmaf(weight, static_cast<float>(row[d]), sums[c]);
  }
}

template <int kChannels>
__device__ void put(float* to, const float (&sums)[kChannels], int width) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const int d = static_cast<int>(threadIdx.x) + kLanes * c;
    if (d < width) to[d] = sums[c];
  }
}

__device__ int thread_of_block() { return static_cast<int>(threadIdx.y * kLanes + threadIdx.x); }
__device__ int threads_of_block() { return static_cast<int>(blockDim.y * kLanes); }

template <class T>
__device__ void fetch(float* to, const T* from, int width) {
  for (int d = thread_of_block(); d < width; d += threads_of_block()) to[d] = static_cast<float>(from[d]);
}

// to[d] = factor * (total over warps of their sums of channel d).
template <class T>
__device__ void store_sums(T* to, const float* sums, float factor, int width) {
  for (int d = thread_of_block(); d < width; d += threads_of_block()) {
    float sum = 0;
    for (int w = 0; w < static_cast<int>(blockDim.y); ++w) sum += sums[w * width + d];
    to[d] = static_cast<T>(factor * sum);
  }
}

// The last key that a query reads.
__device__ int64_t position(const PlainAttention& a, int64_t query) { return query + a.shift[query < a.run ? 0 : 1]; }

// Place of a query in log_sum and delta.
__device__ int64_t place_of(const PlainAttention& a, int64_t sample, int64_t head, int64_t query) {
  const int64_t row = sample * a.heads + head;
  if (query < a.run) return row * a.run + query;
  return a.samples * a.heads * a.run + row * (a.length - a.run) + query - a.run;
}

// Dropout's multiplier of a probability: 0 or keep_scale.
class Multiplier {
 public:
  __device__ Multiplier(const PlainAttention& a, int64_t sample) : a_(a) {
    if (a.threshold == 0) return;
    key_ = dropout_key(a.now->seed, a.now->step);
    sample_ = a.sample_ids[sample];
  }
  __device__ float operator()(int64_t head, int64_t query, int64_t key) const {
    if (a_.threshold == 0) return 1;
    const int64_t element = ((a_.first_head + head) * a_.keys + position(a_, query)) * a_.keys + key;
    const PhiloxBlock block = dropout_block(key_, sample_, a_.site, element >> 3);
    // random16(block, element), without indexing, which would move the block to local memory.
    const auto lane = static_cast<uint32_t>(element & 7);
    const uint32_t low = lane < 2 ? block[0] : block[1], high = lane < 6 ? block[2] : block[3];
    const uint32_t number = ((lane < 4 ? low : high) >> (16 * (lane & 1))) & 0xFFFF;
    return number >= a_.threshold ? a_.keep_scale : 0;
  }

 private:
  const PlainAttention& a_;
  PhiloxKey key_{};
  int64_t sample_ = 0;
};

// First key that a query reads; invalid values are clamped, so that they cannot cause out-of-bounds reads.
__device__ int64_t first_key(const PlainAttention& a, int64_t sample, int64_t query) {
  if (a.first_keys == nullptr) return 0;
  const int64_t first = a.first_keys[sample * a.length + query], last = position(a, query);
  return first < 0 ? 0 : first > last ? last : first;
}

template <class T, int kChannels>
__global__ void forward_kernel(const PlainAttention a) {
  extern __shared__ float shared[];
  const int width = static_cast<int>(a.head_width), warps = static_cast<int>(blockDim.y);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t query = blockIdx.x, head = blockIdx.y, sample = blockIdx.z, kv_head = head / (a.heads / a.kv_heads);
  float *q = shared, *sums = q + width, *maxima = sums + warps * width, *totals = maxima + warps;
  fetch(q, vector_of<const T>(a.q, sample, query, head), width);
  __syncthreads();

  const Multiplier multiplier(a, sample);
  const int64_t end = position(a, query) + 1;
  float most = -std::numeric_limits<float>::infinity(), total = 0, mine[kChannels] = {};
  for (int64_t begin = first_key(a, sample, query) + warp * kLanes; begin < end; begin += warps * kLanes) {
    const int64_t key = begin + lane;
    float score = -std::numeric_limits<float>::infinity();
    if (key < end) score = a.scale * dot(q, vector_of<const T>(a.k, sample, key, kv_head), width, a.aligned);
    const float before = most;
    most = fmaxf(most, max_of_warp(score));
    float weight = key < end ? expf(score - most) : 0;
    const float rescale = expf(before - most);
    total = total * rescale + sum_of_warp(weight);
    if (key < end) weight *= multiplier(head, query, key);
    for (float& sum : mine) sum *= rescale;
    const int count = static_cast<int>(min(static_cast<int64_t>(kLanes), end - begin));
    for (int i = 0; i < count; ++i)
      add_row(mine, __shfl_sync(kAllLanes, weight, i), vector_of<const T>(a.v, sample, begin + i, kv_head), width);
  }
  put(sums + warp * width, mine, width);
  if (lane == 0) maxima[warp] = most, totals[warp] = total;
  __syncthreads();

  // Warps without keys have a maximum of -inf and zero weight.
  float all_most = maxima[0], all_total = 0;
  for (int w = 1; w < warps; ++w) all_most = fmaxf(all_most, maxima[w]);
  for (int w = 0; w < warps; ++w) all_total += totals[w] * expf(maxima[w] - all_most);
  T* out = vector_of<T>(a.out, sample, query, head);
  for (int d = thread_of_block(); d < width; d += threads_of_block()) {
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += sums[w * width + d] * expf(maxima[w] - all_most);
    out[d] = static_cast<T>(sum / all_total);
  }
  if (a.log_sum != nullptr && thread_of_block() == 0)
    a.log_sum[place_of(a, sample, head, query)] = all_most + logf(all_total);
}

// The gradient of a query, and the sum of d_out * out, which the key/value kernel needs too.
template <class T, int kChannels>
__global__ void query_gradient_kernel(const PlainAttention a) {
  extern __shared__ float shared[];
  const int width = static_cast<int>(a.head_width), warps = static_cast<int>(blockDim.y);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t query = blockIdx.x, head = blockIdx.y, sample = blockIdx.z, kv_head = head / (a.heads / a.kv_heads);
  const int64_t place = place_of(a, sample, head, query);
  float *q = shared, *d_out = q + width, *sums = d_out + width;
  fetch(q, vector_of<const T>(a.q, sample, query, head), width);
  fetch(d_out, vector_of<const T>(a.d_out, sample, query, head), width);
  __syncthreads();

  // Every warp computes the same sum.
  const T* out = vector_of<const T>(a.out, sample, query, head);
  float delta = 0;
  for (int d = lane; d < width; d += kLanes) delta = fmaf(d_out[d], static_cast<float>(out[d]), delta);
  delta = sum_of_warp(delta);
  if (thread_of_block() == 0) a.delta[place] = delta;

  const Multiplier multiplier(a, sample);
  const float log_sum = a.log_sum[place];
  const int64_t end = position(a, query) + 1;
  float mine[kChannels] = {};
  for (int64_t begin = first_key(a, sample, query) + warp * kLanes; begin < end; begin += warps * kLanes) {
    const int64_t key = begin + lane;
    float d_score = 0;
    if (key < end) {
      const float score = a.scale * dot(q, vector_of<const T>(a.k, sample, key, kv_head), width, a.aligned);
      const float d_weight = dot(d_out, vector_of<const T>(a.v, sample, key, kv_head), width, a.aligned);
      d_score = expf(score - log_sum) * (multiplier(head, query, key) * d_weight - delta);
    }
    const int count = static_cast<int>(min(static_cast<int64_t>(kLanes), end - begin));
    for (int i = 0; i < count; ++i)
      add_row(mine, __shfl_sync(kAllLanes, d_score, i), vector_of<const T>(a.k, sample, begin + i, kv_head), width);
  }
  put(sums + warp * width, mine, width);
  __syncthreads();
  store_sums(vector_of<T>(a.d_q, sample, query, head), sums, a.scale, width);
}

template <class T, int kChannels>
__global__ void key_value_gradient_kernel(const PlainAttention a) {
  extern __shared__ float shared[];
  const int width = static_cast<int>(a.head_width), warps = static_cast<int>(blockDim.y);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t key = blockIdx.x, kv_head = blockIdx.y, sample = blockIdx.z, group = a.heads / a.kv_heads;
  float *k = shared, *v = k + width, *k_sums = v + width, *v_sums = k_sums + warps * width;
  fetch(k, vector_of<const T>(a.k, sample, key, kv_head), width);
  fetch(v, vector_of<const T>(a.v, sample, key, kv_head), width);
  __syncthreads();

  const Multiplier multiplier(a, sample);
  float d_k[kChannels] = {}, d_v[kChannels] = {};
  // Queries of consecutive positions, in one run or two.
  const auto add_queries = [&](int64_t head, int64_t first, int64_t last) {
    for (int64_t begin = first + warp * kLanes; begin < last; begin += warps * kLanes) {
      if (first_key(a, sample, begin) > key) break;  // first keys never decrease: no later query sees this key
      const int64_t query = begin + lane;
      float weight = 0, d_score = 0;
      if (query < last && first_key(a, sample, query) <= key) {
        const int64_t place = place_of(a, sample, head, query);
        const float score = a.scale * dot(k, vector_of<const T>(a.q, sample, query, head), width, a.aligned);
        const float d_weight = dot(v, vector_of<const T>(a.d_out, sample, query, head), width, a.aligned);
        const float probability = expf(score - a.log_sum[place]), factor = multiplier(head, query, key);
        d_score = probability * (factor * d_weight - a.delta[place]);
        weight = probability * factor;
      }
      const int count = static_cast<int>(min(static_cast<int64_t>(kLanes), last - begin));
      for (int i = 0; i < count; ++i) {
        add_row(d_k, __shfl_sync(kAllLanes, d_score, i), vector_of<const T>(a.q, sample, begin + i, head), width);
        add_row(d_v, __shfl_sync(kAllLanes, weight, i), vector_of<const T>(a.d_out, sample, begin + i, head), width);
      }
    }
  };
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    add_queries(head, max(int64_t{0}, key - a.shift[0]), a.run);
    add_queries(head, max(a.run, key - a.shift[1]), a.length);
  }
  put(k_sums + warp * width, d_k, width);
  put(v_sums + warp * width, d_v, width);
  __syncthreads();
  store_sums(vector_of<T>(a.d_k, sample, key, kv_head), k_sums, a.scale, width);
  store_sums(vector_of<T>(a.d_v, sample, key, kv_head), v_sums, 1, width);
}

template <class T>
__global__ void append_kernel(HeadVectors from, HeadVectors to, int64_t length, int64_t kv_heads, int64_t width,
                              int64_t past) {
  const int64_t token = blockIdx.x, head = blockIdx.y, sample = blockIdx.z;
  const T* source = vector_of<const T>(from, sample, token, head);
  T* target = vector_of<T>(to, sample, past + token, head);
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) target[d] = source[d];
}

__global__ void cudnn_seed_kernel(int64_t* to, uint32_t site, int64_t first_head, int64_t first_position,
                                  const StepScalars* now, const int64_t* sample_ids) {
  uint64_t seed = mix(mix(now->seed) ^ static_cast<uint64_t>(now->step));
  seed = mix(seed ^ static_cast<uint64_t>(sample_ids[0]));
  if (first_position > 0) seed = mix(seed ^ static_cast<uint64_t>(first_position));
  // cuDNN numbers the heads and queries of every call from 0: without the first of them, all ranks would drop the same
  // elements.
  to[0] = static_cast<int64_t>(mix(seed ^ (static_cast<uint64_t>(first_head) << 32 | site)));
  to[1] = 0;
}

// Calls f(T{}) with the element type.
template <class F>
void with_type(PlainAttention::Type type, F f) {
  switch (type) {
    case PlainAttention::Type::fp32:
      return f(float{});
    case PlainAttention::Type::bf16:
      return f(__nv_bfloat16{});
    case PlainAttention::Type::fp16:
      return f(__half{});
  }
}

template <int kChannels>
struct Channels {
  static constexpr int kCount = kChannels;
};

// Also passes the number of channels per lane: f(T{}, Channels<c>{}), with 32 c channels per head.
template <class F>
void with_type_and_channels(const PlainAttention& a, F f) {
  with_type(a.type, [&](auto t) {
    if (a.head_width <= kLanes) return f(t, Channels<1>{});
    if (a.head_width <= 2 * kLanes) return f(t, Channels<2>{});
    if (a.head_width <= 4 * kLanes) return f(t, Channels<4>{});
    f(t, Channels<8>{});
  });
}

dim3 blocks(int64_t x, int64_t y, int64_t z) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

constexpr unsigned kWarps = 4;

// In generation a single query reads all keys: more warps, so that more reads are in flight.
unsigned forward_warps(const PlainAttention& a) {
  if (a.length > 1) return kWarps;
  return static_cast<unsigned>(std::min<int64_t>(16, std::max<int64_t>(kWarps, a.keys / 64)));
}

}  // namespace

void launch_forward(const PlainAttention& a, cudaStream_t stream) {
  if (a.samples * a.length == 0) return;
  const unsigned warps = forward_warps(a);
  const size_t shared = sizeof(float) * ((1 + warps) * static_cast<size_t>(a.head_width) + 2 * warps);
  with_type_and_channels(a, [&](auto t, auto channels) {
    forward_kernel<decltype(t), decltype(channels)::kCount>
        <<<blocks(a.length, a.heads, a.samples), dim3(kLanes, warps), shared, stream>>>(a);
  });
  PARTITA_CUDA_CHECK(cudaGetLastError());
}

void launch_backward(const PlainAttention& a, cudaStream_t stream) {
  if (a.samples * a.length == 0) return;
  const size_t vector = sizeof(float) * static_cast<size_t>(a.head_width);
  with_type_and_channels(a, [&](auto t, auto channels) {
    using T = decltype(t);
    constexpr int kChannels = decltype(channels)::kCount;
    query_gradient_kernel<T, kChannels>
        <<<blocks(a.length, a.heads, a.samples), dim3(kLanes, kWarps), (2 + kWarps) * vector, stream>>>(a);
    key_value_gradient_kernel<T, kChannels>
        <<<blocks(a.keys, a.kv_heads, a.samples), dim3(kLanes, kWarps), (2 + 2 * kWarps) * vector, stream>>>(a);
  });
  PARTITA_CUDA_CHECK(cudaGetLastError());
}

void launch_append(PlainAttention::Type type, const HeadVectors& from, const HeadVectors& to, int64_t samples,
                   int64_t length, int64_t kv_heads, int64_t head_width, int64_t past, cudaStream_t stream) {
  if (samples * length == 0) return;
  with_type(type, [&](auto t) {
    append_kernel<decltype(t)>
        <<<blocks(length, kv_heads, samples), 64, 0, stream>>>(from, to, length, kv_heads, head_width, past);
  });
  PARTITA_CUDA_CHECK(cudaGetLastError());
}

void launch_cudnn_seed(int64_t* to, uint32_t site, int64_t first_head, int64_t first_position, const StepScalars* now,
                       const int64_t* sample_ids, cudaStream_t stream) {
  cudnn_seed_kernel<<<1, 1, 0, stream>>>(to, site, first_head, first_position, now, sample_ids);
  PARTITA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace partita::internal::cuda
