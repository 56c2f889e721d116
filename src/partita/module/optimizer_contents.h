// What a checkpoint stores of a ZeroOptimizer on this rank: views of its slices, which are read and written in place.
//
//   const OptimizerContents contents = optimizer_contents(optimizer);
//   for (const OwnedBox& owned : contents.boxes) read(owned.parameter->name, owned.box, owned.values);
//   take_contents(optimizer, steps, updates);                      // after writing to the values
//
// train/module_checkpoint.h makes checkpoints of it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/engine/optimizer_shards.h"
#include "partita/module/zero_optimizer.h"

namespace partita::internal {

struct OptimizerContents {
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    DType dtype = DType::fp32;        // of master weights and states
    std::vector<std::string> states;  // "adamw.m"
  };
  std::vector<Parameter> parameters;  // all that are trained, of all stages, in the same order on all ranks
  std::vector<OwnedBox> boxes;        // valid until the next step
  struct Frozen {
    at::Tensor parameter;         // the user's
    std::vector<OwnedBox> boxes;  // of its values
  };
  std::vector<Frozen> frozen;      // with stage 3: those that are divided among the ranks, of this rank's stages
  int replica = 0, replicas = 1;   // this rank among those that hold the same slices
  int64_t steps = 0, updates = 0;  // of the optimizer; a skipped step is no update
};

// Takes over what the user has written into the weights. Collective. Error: an optimizer of torch, whose states are its
// own.
[[nodiscard]] OptimizerContents optimizer_contents(ZeroOptimizer&);
// Goes on from the values that were written into the boxes. Collective.
void take_contents(ZeroOptimizer&, int64_t steps, int64_t updates);

}  // namespace partita::internal
