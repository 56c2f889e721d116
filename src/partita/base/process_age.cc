#include "partita/base/process_age.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace partita {

// Linux counts the start of a process in clock ticks since boot, in field 22 of /proc/self/stat (man 5 proc); the name in
// field 2 may have spaces.
double process_age() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  timespec now{};
  if (name_end == std::string::npos || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  double start = 0;
  for (int i = 3; i < 22; ++i) fields >> field;
  if (!(fields >> start)) return 0;
  start /= static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - start);
}

}  // namespace partita
