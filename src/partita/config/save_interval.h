// checkpoint.interval: how much time may pass between checkpoints.
//
//   const SaveInterval interval = save_interval("20min");
#pragma once
#include <string_view>

namespace partita::internal {

struct SaveInterval {
  double seconds = 0;      // 0: no limit
  bool automatic = false;  // from what a save costs and how often machines fail (train/save_schedule.h)

  bool operator==(const SaveInterval&) const = default;
};

// "": no limit; "90s", "20min", "1.5h"; "auto". Error: anything else.
[[nodiscard]] SaveInterval save_interval(std::string_view text);

}  // namespace partita::internal
