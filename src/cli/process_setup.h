// Process-wide setup at the very start of the program.
//
//   int main(...) { prepare_process(); ...
#pragma once

namespace partita::cli {
// Redirects closed descriptors 0 to 2 to /dev/null, so that no file opened later is taken for the terminal, and turns
// exceeding the file size limit into an error instead of a fatal signal.
void prepare_process();

// On Ctrl-C, SIGTERM and SIGHUP, removes the partial files of commands that write files before the process ends.
void remove_files_on_signals(int argc, char** argv);

// If the reader of standard output is gone (partita train ... | head), writes fail instead of ending the process: for
// commands whose work is worth more than their output.
void outlive_readers();
[[nodiscard]] bool outlives_readers();  // whether outlive_readers() was called

}  // namespace partita::cli
