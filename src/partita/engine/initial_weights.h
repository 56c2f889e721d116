// Initial weights: a pure function of (seed, parameter name, element index), so that every layout, stage and device
// starts from the same model. They are made where they are kept: the host makes none of a device's.
//
//   initial_weights(master.narrow(0, begin, count), parameter, seed, run.begin);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/nn/parameter.h"

namespace partita {

// out[i] = initial value of element begin + i of the parameter; out [n] fp32, bf16 or fp16, on any device.
void initial_weights(at::Tensor out, const ParameterSpec&, uint64_t seed, int64_t begin);

}  // namespace partita
