#include "partita/engine/initial_weights.h"

#include <algorithm>

#include "partita/base/random.h"

namespace partita {

void initial_weights(std::span<float> out, const ParameterSpec& parameter, uint64_t seed, int64_t begin) {
  const auto mean = static_cast<float>(parameter.init.mean), std = static_cast<float>(parameter.init.std);
  if (std == 0) {
    std::ranges::fill(out, mean);
    return;
  }
  const PhiloxKey key = philox_key(hash_of(seed, parameter.name));
  std::array<float, 4> normals{};
  for (size_t i = 0; i < out.size(); ++i) {
    const auto element = static_cast<uint64_t>(begin) + i;
    if (i == 0 || element % 4 == 0) normals = normal4(key, element / 4);
    out[i] = mean + std * normals[element % 4];
  }
}

}  // namespace partita
