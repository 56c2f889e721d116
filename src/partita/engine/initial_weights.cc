#include "partita/engine/initial_weights.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "partita/base/random.h"

namespace partita {
namespace {

// A thread is not woken for fewer.
constexpr int64_t kLeastElements = 4096;

}  // namespace

void initial_weights(std::span<float> out, const ParameterSpec& parameter, uint64_t seed, int64_t begin) {
  const auto mean = static_cast<float>(parameter.init.mean), std = static_cast<float>(parameter.init.std);
  if (std == 0) {
    std::ranges::fill(out, mean);
    return;
  }
  const PhiloxKey key = philox_key(hash_of(seed, parameter.name));
  at::parallel_for(0, static_cast<int64_t>(out.size()), kLeastElements, [&](int64_t first, int64_t last) {
    std::array<float, 4> normals{};
    for (int64_t i = first; i < last; ++i) {
      const auto element = static_cast<uint64_t>(begin + i);
      if (i == first || element % 4 == 0) normals = normal4(key, element / 4);
      out[static_cast<size_t>(i)] = mean + std * normals[element % 4];
    }
  });
}

}  // namespace partita
