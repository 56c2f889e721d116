// Removes partially written files and folders when a signal ends the process.
//
//   int main() { remove_on_signals(); ...            // before any thread is started
//   create_removable(path, [&] { return open(path.c_str(), flags, mode) >= 0; });   // done by AtomicFile
//   add_removal("out/model.partial");                // before it is made: done by NewFolder
//   drop_removal("out/model.safetensors.77-0.tmp");  // published, or removed
//
// Ctrl-C, SIGTERM and SIGHUP still end the process as usual (a shell sees 130 after Ctrl-C), after removing unfinished
// outputs. For programs that do not handle these signals themselves.
#pragma once
#include <filesystem>
#include <functional>

namespace partita::internal {

void add_removal(const std::filesystem::path& path);
// Adds the path if `create`, which makes it, returns true. A signal that comes meanwhile ends the process after both.
// For a path that another process may have: adding it first would remove the other's.
void create_removable(const std::filesystem::path& path, const std::function<bool()>& create);
// For a folder that other processes may have added to since it was created.
void add_removal_if_empty(const std::filesystem::path& folder);
void drop_removal(const std::filesystem::path& path);

// Blocks these signals in the calling thread, and thus in threads that it starts later, and waits for them on another
// thread.
void remove_on_signals();

}  // namespace partita::internal
