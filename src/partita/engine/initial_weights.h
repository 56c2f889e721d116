// Initial weights: a pure function of (seed, parameter name, element index), so that every layout, ZeRO stage and
// device starts from the same model. They are generated on the device that stores them.
//
//   initial_weights(master.narrow(0, begin, box.count()), parameter, seed, box);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/nn/box.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

// Fills out with the initial values of this box of the parameter, row by row; out [box.count()] fp32, bf16 or fp16, on
// any device.
void initial_weights(at::Tensor out, const ParameterSpec&, uint64_t seed, const Box&);

}  // namespace partita::internal
