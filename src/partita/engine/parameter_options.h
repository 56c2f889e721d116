// How sharded parameters are stored and updated, and their memory by owner.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/optim/optimizer_options.h"
#include "partita/shard/sharding.h"
#include "partita/shard/units.h"

namespace partita::internal {

struct ParameterOptions {
  DType compute = DType::fp32;  // of gathered weights
  DType states = DType::fp32;   // master weights and optimizer states; equal to compute: no master weights
  int micro_batches = 1;        // accumulated per step
  OptimizerOptions optimizer;
  bool training = true;               // false: no gradients and no optimizer states
  std::filesystem::path disk_folder;  // of units whose states are on disk
  bool weights_on_demand = false;     // WeightStore::Options::on_demand
  bool transient_slices = false;      // GradientStore::Options::transient_slices
  bool early_norms = true;            // on GPUs: GradientStore::Options::norm_stream
  bool poison = false;                // fill evicted weights and fresh gradient buffers with NaN
  at::Device device = at::kCPU;

  // Whether the unit has separate master weights on the device.
  [[nodiscard]] bool has_master_on_device(const Unit& unit) const {
    return training && states != compute && !unit.on_host() && unit.trainable;
  }
};

struct ParameterMemory {  // bytes on this rank
  int64_t weights = 0, gradients = 0, master = 0, optimizer = 0;
  int64_t host = 0;  // in host memory; all others but disk are device memory
  int64_t disk = 0;

  friend bool operator==(const ParameterMemory&, const ParameterMemory&) = default;
};

// What ShardedParameters allocates, including what is placed in memory passed to it. Pure.
[[nodiscard]] ParameterMemory predict_parameter_memory(const UnitPlan&, const Sharding&, const ParameterOptions&);

}  // namespace partita::internal
