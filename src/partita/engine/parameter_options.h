// How sharded parameters are stored and updated, and the memory that they take by owner.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/optim/optimizer_options.h"
#include "partita/shard/sharding.h"
#include "partita/shard/units.h"

namespace partita::internal {

struct ParameterOptions {
  DType compute = DType::fp32;  // of weights as they are gathered
  DType states = DType::fp32;   // of master weights and optimizer states; as compute: there are no master weights
  int micro_batches = 1;        // that add to a step's gradients
  OptimizerOptions optimizer;
  bool training = true;         // false: no gradients and no optimizer states
  bool states_on_host = false;  // master weights, optimizer states and gradients; updated by the host
  bool poison = false;          // evicted weights and fresh gradient buffers are filled with NaN
  at::Device device = at::kCPU;

  // The unit has master weights apart from its weights, on the device.
  [[nodiscard]] bool has_master_on_device(const Unit& unit) const {
    return training && states != compute && !states_on_host && unit.trainable;
  }
};

struct ParameterMemory {  // bytes on this rank
  int64_t weights = 0, gradients = 0, master = 0, optimizer = 0;
  int64_t host = 0;  // of what is on the host; the others count the device's

  friend bool operator==(const ParameterMemory&, const ParameterMemory&) = default;
};

// What ShardedParameters will allocate, and what is placed in memory that is given to it. Pure.
[[nodiscard]] ParameterMemory predict_parameter_memory(const UnitPlan&, const Sharding&, const ParameterOptions&);

}  // namespace partita::internal
