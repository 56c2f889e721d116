// Dropout for device kernels: ops/dropout.h with `now` and `samples` in device memory, so that the host never waits and
// a captured graph can be replayed.
#pragma once
#include "partita/ops/dropout.h"

namespace partita::internal::cuda {

using partita::Dropout;

}  // namespace partita::internal::cuda
