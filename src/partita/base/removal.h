// Files and folders that are half written, and what removes them when a signal ends the process.
//
//   int main() { remove_on_signals(); ...            // before any thread is started
//   add_removal("out/model.safetensors.77-0.tmp");   // AtomicFile and NewFolder do this for what they write
//   drop_removal("out/model.safetensors.77-0.tmp");  // it has its name, or is gone
//
// Ctrl-C, SIGTERM and SIGHUP then end the process as they would, so that a shell sees 130 after Ctrl-C, but what was
// begun is removed before. For programs that do not handle these signals themselves.
#pragma once
#include <filesystem>

namespace partita::internal {

void add_removal(const std::filesystem::path& path);
// Of a folder that others may have put something into since it was made.
void add_removal_if_empty(const std::filesystem::path& folder);
void drop_removal(const std::filesystem::path& path);

// Blocks these signals in the thread that calls it, and so in all that it starts later, and waits for them in another one.
void remove_on_signals();

}  // namespace partita::internal
