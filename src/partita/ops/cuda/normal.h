// Normal random numbers on a device: contract and bits of ops/normal.h.
#pragma once
#include "partita/ops/normal.h"

namespace partita::internal::cuda {

void fill_normal(at::Tensor out, const NormalSequence&);

}  // namespace partita::internal::cuda
