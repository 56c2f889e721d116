// Rotary position embedding (J. Su et al., "RoFormer", 2021), with Llama 3's frequency scaling.
//
// Channels i and i + head_width / 2 of a head form a pair that is rotated by the angle t * frequency[i] at position t
// (the channel order of Hugging Face's Llama weights).
//
//   const RopeTable table = make_rope_table({.head_width = 128, .positions = 8192, .theta = 500000, .factor = 8});
//   rope_forward(qkv, positions, {.heads = 32, .kv_heads = 8, .head_width = 128}, table);
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/ops/attention.h"

namespace partita::internal {

struct RopeOptions {
  int64_t head_width = 64;  // even
  int64_t positions = 1024;
  double theta = 10000;
  // Llama 3: frequencies with fewer than `low` turns within `original_length` positions are divided by `factor`, those
  // with more than `high` are unchanged, with interpolation in between. factor 1: no scaling.
  double factor = 1, low = 1, high = 4;
  int64_t original_length = 8192;
};

// frequency[i] = theta^(-2 i / head_width), scaled: head_width / 2 values, bitwise equal to Hugging Face's fp32 Llama.
// Pure. Errors: an odd width; an invalid theta or scaling.
[[nodiscard]] std::vector<float> rope_frequencies(const RopeOptions&);

// cos and sin of position * frequency, rounded to fp32 like Hugging Face's: [positions, head_width / 2] fp32. On the
// meta device without values.
struct RopeTable {
  at::Tensor cos, sin;
};
[[nodiscard]] RopeTable make_rope_table(const RopeOptions&, at::Device = at::kCPU);

// Rotates q and k of qkv (attention.h) in place. positions [samples, length] int32. Error: a position outside the
// table, with its index.
void rope_forward(at::Tensor qkv, at::Tensor positions, Heads, const RopeTable&);
// Gradient: rotates d_q and d_k back, in place.
void rope_backward(at::Tensor d_qkv, at::Tensor positions, Heads, const RopeTable&);

}  // namespace partita::internal
