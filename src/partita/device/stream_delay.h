// Streams that are late at random: a missing wait, which mostly goes well, then shows as a wrong loss.
//
//   set_stream_delays(200, /*seed=*/rank);   // up to 200 microseconds, half of the times nothing
//
// On CUDA a kernel that does nothing for so long goes in front of what a stream records and behind what it waits for:
// work is late, and so is its end. On the CPU, where work runs at once, the calling thread sleeps: ranks are late.
// Results are the same bits, or there is an error in the order of work. For debug.delay_streams.
#pragma once
#include <chrono>
#include <cstdint>

namespace partita::internal {

// From now on, for all streams of this process; on the CPU for those made from now on. 0: none, as at the start.
void set_stream_delays(int64_t microseconds, uint64_t seed);

[[nodiscard]] bool has_stream_delays();

// How long the next piece of work is held up: the next number of the seed's sequence.
[[nodiscard]] std::chrono::microseconds next_stream_delay();

}  // namespace partita::internal
