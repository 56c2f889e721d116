#include "partita/engine/initial_weights.h"

#include "partita/base/random.h"
#include "partita/ops/normal.h"

namespace partita {

void initial_weights(at::Tensor out, const ParameterSpec& parameter, uint64_t seed, int64_t begin) {
  const auto mean = static_cast<float>(parameter.init.mean), std = static_cast<float>(parameter.init.std);
  if (std == 0) {
    out.fill_(mean);
    return;
  }
  fill_normal(out, {.key = philox_key(hash_of(seed, parameter.name)), .first = begin, .mean = mean, .std = std});
}

}  // namespace partita
