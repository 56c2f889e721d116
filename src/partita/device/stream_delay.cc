#include "partita/device/stream_delay.h"

#include <atomic>

#include "partita/base/random.h"

namespace partita::internal {
namespace {

std::atomic<uint32_t> longest = 0;
std::atomic<uint64_t> sequence = 0;
std::atomic<uint32_t> next = 0;

}  // namespace

void set_stream_delays(int64_t microseconds, uint64_t seed) {
  longest = static_cast<uint32_t>(microseconds);
  sequence = seed;
  next = 0;
}

bool has_stream_delays() { return longest > 0; }

std::chrono::microseconds next_stream_delay() {
  const uint32_t most = longest;
  if (most == 0) return {};
  const auto bits = philox({next++, 0, 0, 0}, philox_key(sequence));
  return std::chrono::microseconds(bits[0] % 2 == 0 ? 0 : 1 + bits[1] % most);
}

}  // namespace partita::internal
