#include "partita/base/process_stat.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "partita/base/number.h"

namespace partita::internal {
namespace {

constexpr int kParent = 4, kStarted = 22;  // field numbers, from 1; the name is field 2

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return std::nullopt;
  ProcessStat stat{.name = std::string(text.substr(open + 1, close - open - 1))};
  text.remove_prefix(close + 1);
  for (int field = 3; field <= kStarted; ++field) {
    if (!text.starts_with(' ')) return std::nullopt;
    text.remove_prefix(1);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    if (field != kParent && field != kStarted) continue;
    const auto number = parse_number<int64_t>(word);
    if (!number) return std::nullopt;
    (field == kParent ? stat.parent : stat.started) = *number;
  }
  return stat;
}

std::optional<ProcessStat> process_stat(int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process), std::ios::binary);
  return parse_process_stat(std::string{std::istreambuf_iterator<char>(file), {}});
}

double process_age() {
  const auto stat = process_stat(getpid());
  timespec now{};
  if (!stat || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double started = static_cast<double>(stat->started) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started);
}

}  // namespace partita::internal
