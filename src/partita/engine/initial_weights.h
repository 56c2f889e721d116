// Initial weights: a pure function of (seed, parameter name, element index), so that every layout, stage and device
// starts from the same model.
#pragma once
#include <cstdint>
#include <span>

#include "partita/shard/layout.h"

namespace partita {

// out[i] = initial value of element begin + i of the parameter.
void initial_weights(std::span<float> out, const ParameterSpec&, uint64_t seed, int64_t begin);

}  // namespace partita
