// Keeps OpenMP threads from wasting other processes' CPU time. A libgomp thread that waits for its team spins for about
// ten milliseconds before it sleeps. On a core shared with a compiler, another job or a browser, the thread it waits
// for cannot run meanwhile, and steps take ten times as long (docs/performance.md).
//
// libgomp reads GOMP_SPINCOUNT once, when libraries are loaded, so it must be in the environment before that: the
// process re-executes itself with the variable added, in the one hook that the dynamic linker calls before any library
// is initialized. At that point it costs milliseconds, and none of our code has run. The process keeps its id, open
// files and everything else from its launcher. Nothing happens if the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT,
// or if the program cannot be executed again.
#include "cli/short_spins.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace partita::cli {

namespace {

// Commands that compute with OpenMP.
constexpr std::array kCommands = {"train", "eval", "generate", "bench", "import", "export"};

constexpr size_t kMostVariables = 8192;

bool is_set(const char* entry, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(entry, name, length) == 0 && entry[length] == '=';
}

bool shared_now() {
  std::array<char, 128> text;
  const int file = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text.data(), text.size());
  close(file);
  return length > 0 && cores_are_shared({text.data(), static_cast<size_t>(length)});
}

// Nothing is initialized yet: no allocation, no streams, no globals of other files, and no sanitizer bookkeeping.
__attribute__((no_sanitize("address", "thread", "undefined"))) void restart_with_short_spins(int argc, char** argv,
                                                                                             char** environment) {
  bool computes = false;
  for (const char* command : kCommands) computes = computes || (argc > 1 && std::strcmp(argv[1], command) == 0);
  // If started through the dynamic linker (no AT_BASE), /proc/self/exe names the linker, not the program.
  if (!computes || getauxval(AT_BASE) == 0) return;
  static std::array<char*, kMostVariables + 2> variables;
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables || is_set(environment[count], "OMP_WAIT_POLICY") ||
        is_set(environment[count], "GOMP_SPINCOUNT"))
      return;
    variables[count] = environment[count];
  }
  // Also marks that this has been done already.
  variables[count] = const_cast<char*>((shared_now() ? kSpinsOfSharedCores : kSpinsOfFreeCores).data());
  static std::array<char, 4096> program;
  const ssize_t length = readlink("/proc/self/exe", program.data(), program.size() - 1);
  if (length > 0) execve(program.data(), argv, variables.data());
}

__attribute__((section(".preinit_array"), used)) void (*const at_load)(int, char**, char**) = restart_with_short_spins;

}  // namespace

}  // namespace partita::cli
