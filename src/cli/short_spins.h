// How long OpenMP threads spin before they sleep (applied by short_spins.cc).
#pragma once
#include <string_view>

namespace partita::cli {
// Iterations of libgomp's spin loop, about 40 ns each. With free cores, a waiting thread nearly always gets new work
// within 40 us; on shared cores, even that much spinning takes time from the thread it waits for.
inline constexpr std::string_view kSpinsOfFreeCores = "GOMP_SPINCOUNT=1000", kSpinsOfSharedCores = "GOMP_SPINCOUNT=100";

// Whether tasks waited for a core during more than 5% of the last ten seconds, according to Linux's /proc/pressure/cpu:
// "some avg10=12.34 avg60=...". Empty (a kernel without this file): false. Pure, never allocates.
[[nodiscard]] constexpr bool cores_are_shared(std::string_view pressure) {
  constexpr std::string_view kBegin = "some avg10=";
  if (!pressure.starts_with(kBegin)) return false;
  int percent = 0;
  for (const char c : pressure.substr(kBegin.size())) {
    if (c < '0' || c > '9' || percent > 100) break;
    percent = 10 * percent + (c - '0');
  }
  return percent >= 5;
}

}  // namespace partita::cli
