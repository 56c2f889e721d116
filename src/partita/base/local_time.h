// Points in time as text, for messages and tables.
//
//   local_time(std::time(nullptr))      // "2026-01-31 12:30:05"
#pragma once
#include <array>
#include <ctime>
#include <string>

namespace partita::internal {

// In the time zone of the process (TZ).
[[nodiscard]] inline std::string local_time(std::time_t time) {
  std::tm fields{};
  ::localtime_r(&time, &fields);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &fields);
  return text.data();
}

}  // namespace partita::internal
