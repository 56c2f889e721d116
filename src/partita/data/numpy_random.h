// The parts of numpy.random.RandomState(seed) that Megatron's sample order needs: MT19937 and the legacy shuffle.
//
//   NumpyRandom random(1234);
//   random.shuffle(std::span(order));      // same result as numpy.random.RandomState(1234).shuffle(order)
//
// Source: numpy/random/src/mt19937 and the legacy `shuffle` (Fisher-Yates from the end, masked rejection). The
// generator is std::mt19937, which has the same recurrence and seeding (init_genrand).
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>

namespace partita::internal {

class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed) : generator_(seed) {}

  // Uniform in 0 .. most, inclusive.
  [[nodiscard]] uint64_t interval(uint64_t most) {
    const uint64_t mask = most == 0 ? 0 : ~uint64_t{0} >> std::countl_zero(most);
    for (;;) {
      const uint64_t value = (most <= std::numeric_limits<uint32_t>::max() ? next32() : next64()) & mask;
      if (value <= most) return value;
    }
  }

  template <class T>
  void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  uint64_t next32() { return generator_(); }
  uint64_t next64() {
    const uint64_t high = next32();
    return (high << 32) | next32();
  }

  std::mt19937 generator_;
};

}  // namespace partita::internal
