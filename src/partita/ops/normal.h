// Counter-based normal random numbers: element i of a sequence is a pure function of (key, i), with the same bits on
// every instruction set and device, however the sequence is split.
//
//   fill_normal(slice, {.key = philox_key(hash_of(seed, name)), .first = begin, .std = 0.02F});
//
// Philox words are transformed by Box-Muller in double precision (ops/normal_steps-inl.h) and rounded once to fp32.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/base/random.h"

namespace partita::internal {

struct NormalSequence {
  PhiloxKey key{};
  int64_t first = 0;  // sequence index of out[0]; at least 0
  float mean = 0, std = 1;
};

// out[i] = mean + std * normal(key, first + i), rounded to fp32 and then to out's dtype; out [n] fp32, bf16 or fp16.
void fill_normal(at::Tensor out, const NormalSequence&);

}  // namespace partita::internal
