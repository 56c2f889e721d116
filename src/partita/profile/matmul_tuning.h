// Selects the algorithms of a run's matmuls (ops/matmul_tuning.h): tuned in the first steps, saved to a file, and
// reused on resume, which keeps results bitwise identical. Resuming from a checkpoint older than the tuning is not
// bitwise reproducible.
//
//   MatmulTuner tuner(host, {.name = matmul_library(device)}, {.kept = run / "matmul_tuning.json", .tune = true});
//   while (...) {
//     tuner.before_step();
//     engine.step(...);
//     tuner.after_step();
//   }
//
// Rank 0 chooses for all ranks. The JSON file holds library, GPU model and, per matmul shape, the algorithm in
// hexadecimal, and the median times in microseconds of the chosen algorithm and of the library's default.
#pragma once
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/config/config.h"
#include "partita/ops/matmul_tuning.h"

namespace partita::internal {

struct TunedProduct {
  MatmulChoice choice;
  double microseconds = 0, first_microseconds = 0;  // per call: chosen algorithm, library's default
  friend bool operator==(const TunedProduct&, const TunedProduct&) = default;
};

struct MatmulTuning {
  std::string library;  // matmul_library of the device it was measured on
  std::vector<TunedProduct> products;
  friend bool operator==(const MatmulTuning&, const MatmulTuning&) = default;
};

[[nodiscard]] std::string to_json(const MatmulTuning&);
// Error: not written by to_json. `name` is for the message.
[[nodiscard]] MatmulTuning parse_matmul_tuning(std::string_view text, const std::string& name);

// Picks the fastest candidate of each matmul. Matmuls with fewer than two measured candidates are left out.
[[nodiscard]] MatmulTuning choose_algorithms(std::string library, std::span<const MatmulTimes>);

// Whether a run without a usable file tunes. automatic: only on a GPU, with enough steps left to pay off, and not in
// deterministic runs, because timing chooses between algorithms that round differently. Error: `wish` is on in a
// deterministic run or on the CPU.
[[nodiscard]] bool tunes_matmul(Switch wish, bool on_device, bool deterministic, int64_t steps_left);

// Interface to the matmul library: the device's functions, replaced in tests.
struct MatmulLibrary {
  std::string name;  // from matmul_library; empty: no choice of algorithms
  std::function<void(int round)> begin_trial = begin_matmul_trial;
  std::function<void()> end_trial = end_matmul_trial;
  std::function<std::vector<MatmulTimes>()> take_times = take_matmul_times;
  std::function<void(std::span<const MatmulChoice>)> use = use_matmul_algorithms;
};

class MatmulTuner {
 public:
  struct Options {
    std::filesystem::path kept;    // read first; written when a choice is made or found elsewhere; may be empty
    std::filesystem::path shared;  // read if `kept` is missing or unusable; may be empty
    bool tune = false;             // tune if neither file has a choice for this library and GPU
    // Called with false before measuring and with true after it: Engine::record_steps. May be empty.
    std::function<void(bool)> record_steps;
  };
  // `host` connects all ranks of the job, which construct this collectively. An unusable file gives a warning and is
  // left as it is until a choice has been made; failing to write `kept` gives a warning too.
  MatmulTuner(Communicator& host, MatmulLibrary, Options);

  // Whether steps are still being measured.
  [[nodiscard]] bool running() const { return step_ < kSteps; }
  void before_step();
  void after_step();
  // Number of matmuls with a chosen algorithm, tuned or loaded.
  [[nodiscard]] size_t products() const { return products_; }

  // Steps for initialization and GPU warm-up, then each candidate is measured this many times.
  static constexpr int kWarmSteps = 3, kCandidates = 8, kRounds = 3;
  static constexpr int kSteps = kWarmSteps + kCandidates * kRounds;

 private:
  void take(const MatmulTuning&);
  void record_steps(bool on) const;

  Communicator& host_;
  MatmulLibrary library_;
  Options options_;
  int step_ = kSteps;
  size_t products_ = 0;
};

}  // namespace partita::internal
