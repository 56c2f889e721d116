// Normal random numbers from a counter: element i of a sequence is a pure function of (key, i), the same bits on every
// instruction set and device, however the sequence is cut.
//
//   fill_normal(slice, {.key = philox_key(hash_of(seed, name)), .first = begin, .std = 0.02F});
//
// Philox words become normals by Box-Muller in double precision (ops/normal_steps-inl.h), rounded once to fp32.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/base/random.h"

namespace partita::internal {

struct NormalSequence {
  PhiloxKey key{};
  int64_t first = 0;  // element of the sequence that out[0] is; at least 0
  float mean = 0, std = 1;
};

// out[i] = mean + std * normal(key, first + i), rounded to fp32 and then to out's dtype; out [n] fp32, bf16 or fp16.
void fill_normal(at::Tensor out, const NormalSequence&);

}  // namespace partita::internal
