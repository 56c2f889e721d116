// Shared by the kinds of `partita bench`: a job whose ranks train on random tokens, and a model in training whose steps
// are timed.
//
//   BenchJob job(arguments);
//   BenchModel model(job, Recompute::none);
//   while (model.steps() < arguments.warmup + arguments.steps) model.step();
//   log::print(model.json().dump());
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "partita/comm/device.h"
#include "partita/comm/mesh.h"
#include "partita/train/build_model.h"

namespace partita::cli {
struct BenchArguments {
  std::string shape = "6,6,384,256,8,4096";
  std::string model = "gpt2", precision = "fp32", states = "fp32", recompute = "none", fp8 = "off", device = "cpu",
              cuda_graph = "auto";
  int64_t kv_heads = 0, ffn = 0, full_layers = 0, zero = 0, micro_batches = 1, steps = 14, warmup = 4;
  float dropout = 0;
  std::string tuning_file, profile;
  bool tune = false;
  bool json = false, deterministic = false, offload_optimizer = false;
  int64_t offload_activations = 0;
  bool poison = false;
  int64_t delay_streams = 0;
};

struct BenchShape {
  int64_t layers, heads, width, length, batch, vocabulary;
};

// Error (wrong usage): not six numbers.
[[nodiscard]] BenchShape parse_bench_shape(const std::string&);

// The equivalent `partita train` configuration: everything that a bench specifies about model and training.
[[nodiscard]] Config bench_config(const BenchArguments&, const BenchShape&, Recompute, int ranks);

[[nodiscard]] double median(std::vector<double>);

// Ranks that all do the same work. `arguments` must outlive it.
struct BenchJob {
  explicit BenchJob(const BenchArguments&);

  const BenchArguments& arguments;
  BenchShape shape;
  World world = World::connect({});
  at::Device device = select_device(parse_device(arguments.device), world);
  Mesh mesh;
  std::vector<Batch> batches;
};

// A model in training, and the time of each step. The job must outlive it.
class BenchModel {
 public:
  BenchModel(BenchJob&, Recompute);

  void step();
  // Selects matmul algorithms: from --tuning-file, or with --tune by measuring in steps that are not timed.
  void tune();
  // Runs three more untimed steps traced into --profile, with a table; does nothing without that option.
  void profile();

  [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(losses_.size()) - uncounted_steps_; }
  [[nodiscard]] const std::vector<double>& seconds() const { return seconds_; }  // of the steps after the warm-up
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }    // of all steps
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] int64_t activation_bytes() const;
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
};

// `partita bench step` and `partita bench recompute`.
void bench_step(const BenchArguments&);
void bench_recompute(const BenchArguments&);

}  // namespace partita::cli
