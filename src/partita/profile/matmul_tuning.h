// The choice of algorithms for a run's matrix products (ops/matmul_tuning.h): made in its first steps, kept in a file,
// and taken from there when the run goes on, which it then does with the same bits; but not where it is begun again
// from a checkpoint of before the choice.
//
//   MatmulTuner tuner(host, {.name = matmul_library(device)}, {.kept = run / "matmul_tuning.json", .tune = true});
//   while (...) {
//     tuner.before_step();
//     engine.step(...);
//     tuner.after_step();
//   }
//
// Rank 0 chooses for all. The file is JSON: library and card, and for each product the algorithm in hexadecimal digits,
// with the medians of the one that was chosen and of the library's first, in microseconds.
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
  double microseconds = 0, first_microseconds = 0;  // a call: of the chosen algorithm, of the library's first
  friend bool operator==(const TunedProduct&, const TunedProduct&) = default;
};

struct MatmulTuning {
  std::string library;  // matmul_library of the device that it was measured on
  std::vector<TunedProduct> products;
  friend bool operator==(const MatmulTuning&, const MatmulTuning&) = default;
};

[[nodiscard]] std::string to_json(const MatmulTuning&);
// Error: not what to_json writes. `name` is for the message.
[[nodiscard]] MatmulTuning parse_matmul_tuning(std::string_view text, const std::string& name);

// The fastest candidate of each product. Products without calls of at least two candidates are left out.
[[nodiscard]] MatmulTuning choose_algorithms(std::string library, std::span<const MatmulTimes>);

// Whether a run that found no choice in a file makes one. automatic: on a device, where steps enough are left to earn
// it, and not where two runs must have the same bits: what is measured decides between algorithms that round
// differently. Error: it is asked for nevertheless where runs must have the same bits, or on the CPU.
[[nodiscard]] bool tunes_matmul(Switch wish, bool on_device, bool deterministic, int64_t steps_left);

// What multiplies: the device's own functions, but for tests.
struct MatmulLibrary {
  std::string name;  // matmul_library; empty: there is nothing to choose
  std::function<void(int round)> begin_trial = begin_matmul_trial;
  std::function<void()> end_trial = end_matmul_trial;
  std::function<std::vector<MatmulTimes>()> take_times = take_matmul_times;
  std::function<void(std::span<const MatmulChoice>)> use = use_matmul_algorithms;
};

class MatmulTuner {
 public:
  struct Options {
    std::filesystem::path kept;  // read first, and written when a choice has been made or found elsewhere; may be empty
    std::filesystem::path shared;  // read where `kept` is not there or of no use; may be empty
    bool tune = false;             // where neither has a choice for this library and card
    // Called with false where measuring begins and with true where it ends: Engine::record_steps. May be empty.
    std::function<void(bool)> record_steps;
  };
  // host: all ranks of the job, which construct it together. A file that cannot be used is warned of, and left as it is
  // until a choice has been made; so is that `kept` cannot be written.
  MatmulTuner(Communicator& host, MatmulLibrary, Options);

  // Steps are still being measured.
  [[nodiscard]] bool running() const { return step_ < kSteps; }
  void before_step();
  void after_step();
  // Whose algorithm was chosen, here or before.
  [[nodiscard]] size_t products() const { return products_; }

  // Steps in which products and the first kernels are made and the card grows warm, then every candidate this many
  // times.
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
