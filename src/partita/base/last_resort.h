// Ends the process where exceptions can no longer be caught: with one sentence and an exit code instead of "terminate
// called" and a signal.
//
//   int main(int argc, char** argv) {
//     install_last_resort(World::abort);
//
// Covers exceptions that leave a thread or that cannot be handled for lack of memory, and segmentation faults of a
// process that has used up its memory, the typical failure of a library that ignores a failed malloc. Any other
// segmentation fault is a bug in this program: it says so and dies by the signal, so that a core dump shows the
// location; handlers installed earlier by external tools still run, and under AddressSanitizer only its own.
#pragma once
#include <cstdint>

namespace partita::internal {

// Call before threads are started; the last call wins. `end` ends the process and the job with an exit code; null: the
// process only.
void install_last_resort(void (*end)(int exit_code));

// Whether memory use is so close to the process's limit (bytes; 0: no limit) that an allocation may have failed. Pure.
[[nodiscard]] bool is_nearly_used_up(int64_t limit, int64_t used);

}  // namespace partita::internal
