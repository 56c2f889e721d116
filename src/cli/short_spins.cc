// Keeps OpenMP's threads from burning the time of others. A thread of libgomp that waits for the rest of its team spins
// for some ten milliseconds before it sleeps; where a core is shared, with a compiler, another job or a browser, the
// thread it waits for is not running meanwhile, and steps take ten times as long (docs/performance.md).
//
// libgomp reads GOMP_SPINCOUNT once, as the libraries are loaded, so that it has to be in the environment before: the
// process replaces itself by the same program with the variable added, in the one hook that the dynamic linker calls
// before any library is initialized. There it costs milliseconds, and nothing of ours has begun. The process keeps its
// id, open files and everything else that a launcher gave it. Where the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT,
// or the program cannot be started again, nothing happens.
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

// Nothing is initialized yet: no allocation, no streams, no global of another file; and no sanitizer's bookkeeping.
__attribute__((no_sanitize("address", "thread", "undefined"))) void restart_with_short_spins(int argc, char** argv,
                                                                                             char** environment) {
  bool computes = false;
  for (const char* command : kCommands) computes = computes || (argc > 1 && std::strcmp(argv[1], command) == 0);
  // Started as an argument of the dynamic linker (no AT_BASE), the program is not what /proc/self/exe names.
  if (!computes || getauxval(AT_BASE) == 0) return;
  static std::array<char*, kMostVariables + 2> variables;
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables || is_set(environment[count], "OMP_WAIT_POLICY") ||
        is_set(environment[count], "GOMP_SPINCOUNT"))
      return;
    variables[count] = environment[count];
  }
  // Which also shows, next time, that this was done.
  variables[count] = const_cast<char*>((shared_now() ? kSpinsOfSharedCores : kSpinsOfFreeCores).data());
  static std::array<char, 4096> program;
  const ssize_t length = readlink("/proc/self/exe", program.data(), program.size() - 1);
  if (length > 0) execve(program.data(), argv, variables.data());
}

__attribute__((section(".preinit_array"), used)) void (*const at_load)(int, char**, char**) = restart_with_short_spins;

}  // namespace

}  // namespace partita::cli
