// partita bench step: the speed of a training step.
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "cli/bench_job.h"
#include "partita/base/log.h"
#include "partita/base/timer.h"

namespace {

// How long this process runs already: libraries for a GPU take a second to load. Linux counts its start in clock ticks since
// boot, in field 22 of /proc/self/stat (man 5 proc); the name in field 2 may have spaces. 0: it does not say.
double process_age() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  timespec now{};
  if (name_end == std::string::npos || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double start = std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - start);
}

}  // namespace

void bench_step(const BenchArguments& a) {
  const double before = process_age();
  const partita::Timer timer;
  BenchJob job(a);
  const auto mode = std::ranges::find(kBenchRecompute, a.recompute) - kBenchRecompute.begin();
  BenchModel model(job, static_cast<partita::Recompute>(mode));
  model.step();
  const double first = before + timer.seconds();
  model.tune();
  while (model.steps() < a.warmup + a.steps) model.step();
  nlohmann::ordered_json line = model.json();
  line["first_step_s"] = first;
  partita::log::print(line.dump());
  model.profile();
}
