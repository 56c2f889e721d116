// A tuner with a fake library: matmuls with two algorithms each, whose times are given, and a record of the tuner's
// calls.
//
//   TunerCase card("cuBLASLt 130100, H100");
//   MatmulTuner tuner(*host, card.library(), {.kept = file, .tune = true});
//   card.run(tuner);
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/profile/matmul_tuning.h"

namespace partita::internal::test {

struct TunerCase {
  explicit TunerCase(std::string the_name) : name(std::move(the_name)) {}

  std::string name;
  std::vector<MatmulTimes> times = {{"64 32 8", {"a0", "a1"}, {{0.5F, 0.75F, 0.5F}, {0.25F, 0.25F, 4}}},
                                    {"1 2 3 add", {"b0", "b1"}, {{1}, {2}}},
                                    {"7 7 7", {"c0"}, {{1}}}};
  std::vector<int> rounds;           // that were begun
  int steps = 0, ended = 0;          // steps run; trials ended
  std::vector<MatmulChoice> in_use;  // as the last call said
  int uses = 0;
  std::vector<std::pair<int, bool>> recorded;  // step, whether steps are recorded from then on

  // What `times` come to.
  [[nodiscard]] MatmulTuning tuning() const {
    return {.library = name, .products = {{{"64 32 8", "a1"}, 250, 500}, {{"1 2 3 add", "b0"}, 1000, 1000}}};
  }
  [[nodiscard]] MatmulLibrary library() {
    return {.name = name,
            .begin_trial = [this](int round) { rounds.push_back(round); },
            .end_trial = [this] { ++ended; },
            .take_times = [this] { return times; },
            .use =
                [this](std::span<const MatmulChoice> choices) {
                  in_use.assign(choices.begin(), choices.end());
                  ++uses;
                }};
  }
  [[nodiscard]] std::function<void(bool)> record_steps() {
    return [this](bool on) { recorded.emplace_back(steps, on); };
  }
  // A few steps beyond the last that is measured.
  void run(MatmulTuner& tuner) {
    for (int step = 0; step < MatmulTuner::kSteps + 5; ++step) {
      tuner.before_step();
      ++steps;
      tuner.after_step();
    }
  }
};

}  // namespace partita::internal::test
