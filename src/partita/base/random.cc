#include "partita/base/random.h"

#include <cmath>
#include <numbers>

namespace partita {

std::array<float, 4> normal4(PhiloxKey key, uint64_t index) {
  const PhiloxBlock bits = philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0}, key);
  std::array<float, 4> out{};
  for (int pair = 0; pair < 2; ++pair) {
    const double u = (bits[2 * pair] + 0.5) * 0x1p-32, angle = 2 * std::numbers::pi * (bits[2 * pair + 1] * 0x1p-32);
    const double radius = std::sqrt(-2 * std::log(u));
    out[2 * pair] = static_cast<float>(radius * std::cos(angle));
    out[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return out;
}

}  // namespace partita
