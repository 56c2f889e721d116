// The operands of the plain attention kernels as raw pointers and numbers: attention.cu includes no torch headers,
// which nvcc compiles slowly.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "partita/ops/step_scalars.h"

namespace partita::internal::cuda {

// Head vectors: start address, and element strides between them.
struct HeadVectors {
  void* data = nullptr;
  int64_t sample = 0, token = 0, head = 0;
};

struct PlainAttention {
  enum class Type : uint8_t { fp32, bf16, fp16 } type = Type::fp32;
  int64_t samples = 0, length = 0, heads = 0, kv_heads = 0, head_width = 0;
  int64_t keys = 0;  // of a sample
  // Position among the keys, less the index, of queries 0 to run - 1 and of those from `run` on.
  int64_t run = 0, shift[2] = {0, 0};
  float scale = 1;
  bool aligned = false;  // all vectors are 16-byte aligned, with sizes that are multiples of 16 bytes

  HeadVectors q, k, v, out, d_q, d_k, d_v, d_out;
  // [samples, heads, queries] of each run, one run after the other.
  float* log_sum = nullptr;             // optional
  float* delta = nullptr;               // scratch of backward
  const int32_t* first_keys = nullptr;  // [samples, length]; null: all 0

  uint32_t threshold = 0;  // dropout threshold; 0: none
  float keep_scale = 1;
  uint32_t site = 0;
  int64_t first_head = 0;  // number in the model of head 0, for the mask
  const StepScalars* now = nullptr;
  const int64_t* sample_ids = nullptr;
};

inline constexpr int64_t kMostHeadWidth = 256;
inline constexpr int64_t kMostBlocks = 65535;  // limit for samples and for heads

void launch_forward(const PlainAttention&, cudaStream_t);
void launch_backward(const PlainAttention&, cudaStream_t);
// Copies k and v [samples, length] to positions past, past + 1 ... of another layout.
void launch_append(PlainAttention::Type, const HeadVectors& from, const HeadVectors& to, int64_t samples,
                   int64_t length, int64_t kv_heads, int64_t head_width, int64_t past, cudaStream_t);
// Seed and offset of a cuDNN dropout mask.
void launch_cudnn_seed(int64_t* to, uint32_t site, int64_t first_head, int64_t first_position, const StepScalars* now,
                       const int64_t* sample_ids, cudaStream_t);

}  // namespace partita::internal::cuda
