// Random stream delays: a missing wait, which usually goes unnoticed, then shows up as a wrong loss.
//
//   set_stream_delays(200, /*seed=*/rank);   // up to 200 microseconds, none in half of the cases
//
// On CUDA, a spinning kernel is inserted before what a stream records and after what it waits for, delaying work and
// its completion. On the CPU, where work runs immediately, the calling thread sleeps, which delays ranks. Transfers of
// scratch files (device/scratch_file.h) begin late. Results must be bitwise unchanged, otherwise the ordering is wrong.
// For debug.delay_streams.
#pragma once
#include <chrono>
#include <cstdint>

namespace partita::internal {

// Applies to all streams of this process; on the CPU, to streams created afterwards. 0 (the default): no delays.
void set_stream_delays(int64_t microseconds, uint64_t seed);

[[nodiscard]] bool has_stream_delays();

// Delay of the next piece of work: the next number in the seed's sequence.
[[nodiscard]] std::chrono::microseconds next_stream_delay();

}  // namespace partita::internal
