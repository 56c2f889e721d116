// Shared by the kinds of `partita bench`: a job whose ranks train on random tokens, and a model in training whose steps
// are timed.
//
//   BenchJob job(arguments);
//   BenchModel model(job, job.config.memory.recompute);
//   while (model.steps() < arguments.warmup + arguments.steps) model.step();
//   log::print(model.json().dump());
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partita/comm/device.h"
#include "partita/comm/mesh.h"
#include "partita/train/build_model.h"

namespace partita::cli {
struct BenchArguments {
  std::filesystem::path file;         // configuration; empty: defaults
  std::vector<std::string> settings;  // overrides of its keys
  std::filesystem::path profile;
  std::filesystem::path folder;  // of checkpoints
  int64_t steps = 14, warmup = 4, saves = 3;
  bool json = false;
};

// The configuration of a bench on `ranks` ranks: the file, or a small GPT-2 if there is none, then the settings.
// model.max_length and train.global_batch, where neither sets them, are one sample of train.sequence_length, and one
// micro-batch per data-parallel rank. Errors: those of load_config and validate_step.
[[nodiscard]] Config bench_config(const BenchArguments&, int ranks);

[[nodiscard]] double median(std::vector<double>);

// Ranks that all do the same work. `arguments` must outlive it.
struct BenchJob {
  explicit BenchJob(const BenchArguments&);

  const BenchArguments& arguments;
  World world = World::connect({});
  Config config;
  at::Device device;
  Mesh mesh;
  std::vector<Batch> batches;
};

// A model in training, and the time of each step. The job must outlive it.
class BenchModel {
 public:
  BenchModel(BenchJob&, Recompute);

  void step();
  // Selects matmul algorithms as a training run does (kernels.tune_matmul, kernels.tuning_file), in steps that are not
  // timed.
  void tune();
  // Runs three more untimed steps traced into --profile, with a table; does nothing without that option.
  void profile();

  [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(losses_.size()) - uncounted_steps_; }
  [[nodiscard]] const std::vector<double>& seconds() const { return seconds_; }  // of the steps after the warm-up
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }    // of all steps
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] int64_t activation_bytes() const;
  [[nodiscard]] Engine& engine() { return *engine_; }
  // Settings and results; requires at least one timed step. Collective.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  void add_device_figures(nlohmann::ordered_json&) const;

  BenchJob& job_;
  Config config_;
  std::unique_ptr<Engine> engine_;
  int64_t uncounted_steps_ = 0;
  size_t tuned_products_ = 0;
  std::vector<double> seconds_, losses_;
  double grad_norm_ = 0;  // of the last step, for early updates
};

// `partita bench step`, `partita bench checkpoint` and `partita bench recompute`.
void bench_checkpoint(const BenchArguments&);
void bench_step(const BenchArguments&);
void bench_recompute(const BenchArguments&);

}  // namespace partita::cli
