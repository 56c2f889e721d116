// The current GPU of a thread. New threads start with the first GPU: copies for another one would allocate memory
// there, too, and kernels for its streams would fail.
//
//   std::thread thread([enter = device_of_this_thread()] { enter(); ... });
#pragma once
#include <functional>

namespace partita::internal {

// Returns a function that makes the caller's current GPU current in the thread that calls it; without GPUs it does
// nothing.
[[nodiscard]] std::function<void()> device_of_this_thread();

}  // namespace partita::internal
