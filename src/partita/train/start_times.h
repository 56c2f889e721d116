// Breakdown of the time from process start to the end of the first step.
//
//   StartTimes times;
//   times.add("program and ranks", process_age());
//   ... open the data ...
//   times.add("data", timer.lap());
//   log::debug("{}", times.text());  // "first step after 5 s: program and ranks 1.10, data 0.30, ..., first step 2.00"
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace partita::internal {

class StartTimes {
 public:
  void add(std::string phase, double seconds) { phases_.emplace_back(std::move(phase), seconds); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::pair<std::string, double>> phases_;
};

}  // namespace partita::internal
