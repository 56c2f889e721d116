// What the program sees to before anything else happens in its process.
//
//   int main(...) { prepare_process(); ...
#pragma once

namespace partita::cli {
// Descriptors 0 to 2 that the caller has closed lead to /dev/null, so that no file that is opened later is taken for the
// terminal; a write beyond the limit on file sizes is an error and not the end of the process.
void prepare_process();

// Ctrl-C, SIGTERM and SIGHUP remove what a command that writes files has half written, before they end it.
void remove_files_on_signals(int argc, char** argv);

// A reader of standard output that has gone (partita train ... | head) is an error of the write, not the end of the
// process: for commands whose work is worth more than what they print.
void outlive_readers();
[[nodiscard]] bool outlives_readers();  // whether that was called

}  // namespace partita::cli
