// The operands of the plain attention kernels as plain numbers: attention.cu includes no torch header, which nvcc reads
// slowly.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "partita/ops/step_scalars.h"

namespace partita::internal::cuda {

// Vectors of heads: where they begin, and how many elements lie from one to the next.
struct HeadVectors {
  void* data = nullptr;
  int64_t sample = 0, token = 0, head = 0;
};

struct PlainAttention {
  enum class Type : uint8_t { fp32, bf16, fp16 } type = Type::fp32;
  int64_t samples = 0, length = 0, heads = 0, kv_heads = 0, head_width = 0;
  int64_t past = 0;  // keys and values in front of those of the first query
  float scale = 1;
  bool aligned = false;  // all vectors begin at addresses divisible by 16, and their bytes are a multiple of that

  HeadVectors q, k, v, out, d_q, d_k, d_v, d_out;
  float* log_sum = nullptr;             // [samples, heads, length], or not wanted
  float* delta = nullptr;               // [samples, heads, length]: scratch of backward
  const int32_t* first_keys = nullptr;  // [samples, length], or 0 for all

  uint32_t threshold = 0;  // of dropout; 0: none
  float keep_scale = 1;
  uint32_t site = 0;
  const StepScalars* now = nullptr;
  const int64_t* sample_ids = nullptr;
};

inline constexpr int64_t kMostHeadWidth = 256;
inline constexpr int64_t kMostBlocks = 65535;  // samples, and heads

void launch_forward(const PlainAttention&, cudaStream_t);
void launch_backward(const PlainAttention&, cudaStream_t);
// k and v [samples, length] of one layout to positions past, past + 1 ... of another.
void launch_append(PlainAttention::Type, const HeadVectors& from, const HeadVectors& to, int64_t samples,
                   int64_t length, int64_t kv_heads, int64_t head_width, int64_t past, cudaStream_t);
// Two numbers of a cuDNN dropout mask: seed and offset.
void launch_cudnn_seed(int64_t* to, uint32_t site, const StepScalars* now, const int64_t* sample_ids, cudaStream_t);

}  // namespace partita::internal::cuda
