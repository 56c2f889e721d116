// Progress of a run: a bar on the terminal's last line, or periodic lines in a log.
//
//   log::status(progress_bar({.step = 300, .steps = 1000, .seconds = 60, .loss = 4.2, .tokens_per_second = 15e3}, 80));
//   " 30% [######..............] 300/1000  loss 4.200  15.0k tok/s  ETA 2:20"
#pragma once
#include <cstdint>
#include <string>

namespace partita::internal {

struct Progress {
  int64_t step = 0, steps = 0;
  int64_t first_step = 0;  // the run resumed after this one: `seconds` count from there
  double seconds = 0;      // spent on this process's steps
  double loss = 0;
  double tokens_per_second = 0;

  // Remaining seconds at the average pace so far; negative: not known yet.
  [[nodiscard]] double seconds_left() const;
};

// At most `width` columns. The bar takes the space that the figures leave; below ten columns it is omitted, and then
// figures are dropped one by one.
[[nodiscard]] std::string progress_bar(const Progress& progress, int width);

// "step 300 of 1000 (30%), loss 4.200, 15.0k tok/s, ETA 2:20"
[[nodiscard]] std::string progress_text(const Progress& progress);

// "950", "15.0k", "3.25M", "1.20G"
[[nodiscard]] std::string human_count(double value);

}  // namespace partita::internal
