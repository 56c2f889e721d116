// Removes partially written files and folders when a signal ends the process.
//
//   int main() { remove_on_signals(); ...            // before any thread is started
//   add_removal("out/model.safetensors.77-0.tmp");   // done by AtomicFile and NewFolder for their files
//   drop_removal("out/model.safetensors.77-0.tmp");  // published, or removed
//
// Ctrl-C, SIGTERM and SIGHUP still end the process as usual (a shell sees 130 after Ctrl-C), after removing unfinished
// outputs. For programs that do not handle these signals themselves.
#pragma once
#include <filesystem>

namespace partita::internal {

void add_removal(const std::filesystem::path& path);
// For a folder that other processes may have added to since it was created.
void add_removal_if_empty(const std::filesystem::path& folder);
void drop_removal(const std::filesystem::path& path);

// Blocks these signals in the calling thread, and thus in threads that it starts later, and waits for them on another
// thread.
void remove_on_signals();

}  // namespace partita::internal
