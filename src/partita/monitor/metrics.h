// Metrics of a run as plain numbers: filled by the trainer, displayed by hooks and files.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace partita {

// Properties that are constant during a run.
struct RunInfo {
  int rank = 0, ranks = 1;
  int64_t total_steps = 0;
  int64_t resumed_step = 0;           // the run resumes after this step; 0: starts fresh
  int64_t resumed_samples = 0;        // consumed up to that step
  int64_t global_batch = 0;           // samples per step
  int64_t tokens_per_step = 0;        // global_batch x sequence length; 0: a model of something else
  int64_t parameters = 0;             // of the whole model
  int64_t trained_parameters = 0;     // not frozen; includes adapters
  double flops_per_token = 0;         // forward and backward, see models/config.h
  double peak_flops = 0;              // FLOP/s of one device in the run's precision; 0: unknown
  bool on_cpu = false;                // peak_flops is then measured with a rank's threads
  std::filesystem::path directory{};  // run directory
  std::string settings{};             // as text, for people
};

// One optimizer step.
struct StepMetrics {
  int64_t step = 0;              // counted from 1
  int64_t consumed_samples = 0;  // including this step's
  double loss = 0;               // mean over the valid tokens of the global batch; of a user's module: over its losses
  double grad_norm = 0;          // global, before clipping
  double learning_rate = 0;      // used by this step
  double seconds = 0;            // wall time of this step
  int64_t tokens = 0;            // over all ranks
  double loss_scale = 1;         // for the next step; 1 except in fp16
  int64_t skipped_steps = 0;     // so far: updates skipped because a gradient was not finite
  int64_t nan_steps = 0;         // so far: steps with a loss that was not finite
  int64_t memory_peak = 0;       // so far: peak bytes allocated on rank 0's device; 0: no separate device memory

  [[nodiscard]] double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

// One validation.
struct EvalMetrics {
  int64_t step = 0, consumed_samples = 0;
  double loss = 0;     // mean over the valid tokens
  int64_t tokens = 0;  // 0: a model of something else
  double seconds = 0;

  // exp of the loss, capped at exp(20) as Megatron-LM does.
  [[nodiscard]] double perplexity() const { return std::exp(std::isnan(loss) ? loss : std::fmin(20.0, loss)); }
};

// One checkpoint.
struct SaveMetrics {
  std::filesystem::path folder{};
  int64_t step = 0;
  int64_t bytes = 0;         // over all ranks
  double seconds = 0;        // from its start until it was durable on all ranks
  double stall_seconds = 0;  // of these, training waited
  double copy_seconds = 0;   // in the background: until what is saved was copied
  bool in_background = false;
};

// Bytes on one rank by owner: "weights", "gradients", "optimizer", ...
struct MemoryOwner {
  std::string name;
  int64_t bytes = 0;
};

}  // namespace partita
