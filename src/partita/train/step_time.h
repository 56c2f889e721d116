// The time of a training step from what a rank computes and moves, with the overlap that the engine has. Pure; no
// configuration, no model.
//
//   const StepTime t = step_time(load, rates);
//   t.seconds, t.bound              // 0.34, StepResource::host_memory
//
// A step is counted from the moment at which the gradient norm is known to the next such moment:
//
//   device update | first forward pass | ... other micro-batches ... | last backward pass
//   host updates, unit by unit ------->|
//
// The forward pass of a block waits for the host's update of its weights, and the first backward pass for all updates.
// Early updates use the last backward pass, too; what is left of them is spread over the units.
// Copies of activations and gradients, gathers and reductions run under the pass that they belong to, which takes the
// time of the slowest. Exchanges of tensor and context parallelism are waited for.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace partita::internal {

enum class StepResource : uint8_t { compute, device_memory, link, host_memory, disk, network };
inline constexpr size_t kStepResources = 6;

// FLOP/s of bf16 or fp32 matmuls, or bytes/s, of each resource for one rank. Infinite: takes no time.
struct StepRates {
  std::array<double, kStepResources> of = {};

  [[nodiscard]] double operator[](StepResource r) const { return of[static_cast<size_t>(r)]; }
  double& operator[](StepResource r) { return of[static_cast<size_t>(r)]; }
};

// Of the forward or backward passes of one micro-batch.
struct PassLoad {
  double flops = 0;         // as if all were matmuls: kernels that reach another rate count by their time
  double device_bytes = 0;  // of kernels bound by memory
  double down = 0, up = 0;  // bytes over the link between device and host, under the pass
  double host_bytes = 0;    // that the host reads and writes in memory under the pass: sums of gradients
  double disk_bytes = 0;    // read under the pass: weights
  double moved = 0;         // bytes from other ranks under the pass: weights, gradients, messages of a pipeline
  double exchanged = 0;     // bytes from other ranks that the pass waits for
};

// A unit that the host updates.
struct UnitUpdate {
  int first_block = 0;    // whose forward pass waits for it
  double host_bytes = 0;  // that the update reads and writes in memory
  double disk_bytes = 0;  // the same in the file
  double up = 0;          // bytes of new weights
};

struct StepLoad {
  int64_t micro_batches = 1;
  double bubble = 0;                // of a pipeline: waiting, as a part of the time of the passes
  PassLoad forward, backward;       // of a micro-batch
  PassLoad last_backward;           // what the last backward pass has in addition
  double update_bytes = 0;          // of device memory, in the update on the device
  double moved_update = 0;          // bytes of new weights from other ranks, under the first forward pass
  std::vector<double> blocks;       // [block], at least one: its part of a forward pass; they sum to 1
  std::vector<UnitUpdate> updates;  // of the host, in order
  bool early = false;               // they begin as gradients arrive, under the last backward pass
  double flops = 0;                 // of a step, as they are counted: for people

  // Per step: FLOPs of matmul time, or bytes in both directions.
  [[nodiscard]] double total(StepResource) const;
  [[nodiscard]] double down() const;  // bytes per step from the device to the host
  [[nodiscard]] double up() const;
};

struct StepTime {
  double seconds = 0;
  StepResource bound = StepResource::compute;  // without it the step would be shortest ...
  double unbound_seconds = 0;                  // ... and take this
};

// Errors: a rate that is not positive.
[[nodiscard]] StepTime step_time(const StepLoad&, const StepRates&);

}  // namespace partita::internal
