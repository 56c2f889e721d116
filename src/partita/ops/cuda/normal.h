// Normal random numbers on a device: the contract of ops/normal.h, and its bits.
#pragma once
#include "partita/ops/normal.h"

namespace partita::internal::cuda {

void fill_normal(at::Tensor out, const NormalSequence&);

}  // namespace partita::internal::cuda
