#include "partita/base/free_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

// Empty if it does not exist. Files in /proc and /sys have no size, so they are read to their end.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> first_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The number after `name` in lines "name number".
int64_t counter(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return first_number(line.substr(name.size() + 1)).value_or(0);
    at = end + 1;
  }
  return 0;
}

// Bytes still free in one group; nullopt without a limit.
std::optional<int64_t> free_of_group(const fs::path& group, bool version_2, int64_t swap) {
  const std::optional<int64_t> limit =
      first_number(text_of(group / (version_2 ? "memory.max" : "memory.limit_in_bytes")));
  const std::optional<int64_t> used =
      first_number(text_of(group / (version_2 ? "memory.current" : "memory.usage_in_bytes")));
  // Version 1 expresses "no limit" as a number near the maximum.
  if (!limit || !used || *limit > (int64_t{1} << 60)) return std::nullopt;
  const std::string statistics = text_of(group / "memory.stat");
  const char* prefix = version_2 ? "" : "total_";
  const int64_t files = counter(statistics, std::string(prefix) + "inactive_file") +
                        counter(statistics, std::string(prefix) + "active_file");
  int64_t swappable = 0;
  if (version_2) {
    const std::string most = text_of(group / "memory.swap.max");
    const int64_t swapped = first_number(text_of(group / "memory.swap.current")).value_or(0);
    swappable = most.starts_with("max") ? swap : std::clamp<int64_t>(first_number(most).value_or(0) - swapped, 0, swap);
  }
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - files)) + swappable;
}

// The minimum over the group and its parents.
std::optional<int64_t> free_up_to(const fs::path& root, std::string_view group, bool version_2, int64_t swap) {
  std::optional<int64_t> least;
  // A container sees its own group as the root, whatever its name is outside.
  const fs::path below = fs::path(group).relative_path();
  fs::path path = below.empty() ? root : root / below;
  if (std::error_code ignored; !fs::exists(path, ignored)) path = root;
  for (;; path = path.parent_path()) {
    if (const auto free = free_of_group(path, version_2, swap)) least = std::min(least.value_or(*free), *free);
    if (path == root || !path.has_relative_path()) return least;
  }
}

void add_process_limit(std::vector<MemoryLimit>& limits, int resource, const char* name, int64_t used) {
  rlimit limit{};
  if (used < 0 || getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 ||
      limit.rlim_cur >= static_cast<rlim_t>(std::numeric_limits<int64_t>::max()))
    return;
  limits.push_back({name, std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used), true});
}

}  // namespace

int64_t kilobytes_line(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':') {
      line.remove_prefix(name.size() + 1);
      while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
      const auto value = first_number(line);
      return value ? *value << 10 : -1;
    }
    at = end + 1;
  }
  return -1;
}

std::vector<MemoryLimit> control_group_limits(const fs::path& root, std::string_view membership, int64_t swap) {
  std::vector<MemoryLimit> limits;
  // Lines "0::/group" for version 2, "4:memory:/group" for version 1.
  for (size_t at = 0; at < membership.size();) {
    const size_t end = std::min(membership.find('\n', at), membership.size());
    const std::string_view line = membership.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const bool version_2 = controllers == ",,";
    if (!version_2 && controllers.find(",memory,") == std::string::npos) continue;
    const auto free = free_up_to(version_2 ? root : root / "memory", line.substr(second + 1), version_2, swap);
    if (free) limits.push_back({"the limit of the control group", *free, false});
  }
  return limits;
}

std::vector<MemoryLimit> memory_limits() {
  std::vector<MemoryLimit> limits;
  const std::string machine = text_of("/proc/meminfo"), process = text_of("/proc/self/status");
  const int64_t swap = std::max<int64_t>(0, kilobytes_line(machine, "SwapFree"));
  if (const int64_t available = kilobytes_line(machine, "MemAvailable"); available >= 0)
    limits.push_back({"the memory of this machine", available + swap, false});
  for (MemoryLimit& limit : control_group_limits("/sys/fs/cgroup", text_of("/proc/self/cgroup"), swap))
    limits.push_back(std::move(limit));
  add_process_limit(limits, RLIMIT_AS, "the limit of address space, ulimit -v", kilobytes_line(process, "VmSize"));
  add_process_limit(limits, RLIMIT_DATA, "the limit of data, ulimit -d", kilobytes_line(process, "VmData"));
  return limits;
}

FreeMemory free_for_process(std::span<const MemoryLimit> limits, int processes) {
  FreeMemory least;
  for (const MemoryLimit& limit : limits) {
    const int64_t free = limit.per_process ? limit.free : limit.free / std::max(processes, 1);
    if (free < least.bytes) least = {free, limit.name};
  }
  return least;
}

}  // namespace partita::internal
