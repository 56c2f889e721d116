// One sequence of random numbers for kernels: dropout and stochastic rounding use counters of the same form.
#pragma once
#include "partita/base/random.h"

namespace partita::internal {

struct PhiloxStream {
  PhiloxKey key{};
  uint32_t site = 0;  // dropout: the site; rounding: the tensor
  int64_t id = 0;     // dropout: the sample; rounding: the step

  [[nodiscard]] PhiloxBlock block(int64_t index) const { return philox_block(key, site, id, index); }
};

// Numbers are generated in whole vectors of blocks from the start of a block: elements beyond the requested count.
inline constexpr int64_t kNumberPadding = 128;

}  // namespace partita::internal
