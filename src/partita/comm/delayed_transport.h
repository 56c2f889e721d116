// A transport whose messages leave late, at random: what does not wait for a message then reads what was there before,
// and what overwrites a message before it is sent changes it. For debug.delay_streams.
//
//   auto transport = make_delayed_transport(make_mpi_transport(), microseconds(500), /*seed=*/rank);
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>

#include "partita/comm/transport.h"

namespace partita::internal {

// Each message leaves up to `most` after it is sent, half of them at once; those of one tag to one rank stay in order.
[[nodiscard]] std::unique_ptr<Transport> make_delayed_transport(std::unique_ptr<Transport> inner,
                                                                std::chrono::microseconds most, uint64_t seed);

}  // namespace partita::internal
