// What ends the process where no exception can be caught any more: one sentence and an exit code in place of "terminate
// called" and a signal.
//
//   int main(int argc, char** argv) {
//     install_last_resort(World::abort);
//
// That is an exception that leaves a thread, or is thrown where there is no memory to handle it; and a segmentation
// fault of a process that has used up its memory, which is how a library fails that does not check what malloc returns.
// Any other segmentation fault is an error of this program: it says so and ends by its signal, so that a core dump
// shows the place. A handler that was installed before, by a tool in the environment, has its turn then; under
// AddressSanitizer there is its own alone.
#pragma once
#include <cstdint>

namespace partita::internal {

// Before threads are started; the last call counts. `end` ends the process, and the job with it, by an exit code; null:
// the process alone.
void install_last_resort(void (*end)(int exit_code));

// Whether so little is left of a limit on the memory of the process (bytes; 0: no limit) that an allocation may have
// failed. Pure.
[[nodiscard]] bool is_nearly_used_up(int64_t limit, int64_t used);

}  // namespace partita::internal
