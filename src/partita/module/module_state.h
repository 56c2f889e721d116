// Master weights and optimizer states of sharded parameters as whole tensors, for checkpoints of users' modules: what
// one number of ranks and stage has written, another reads.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "partita/comm/communicator.h"
#include "partita/engine/sharded_parameters.h"

namespace partita {

// "first.weight": its master weights; "first.weight/adamw.m": an optimizer state.
using StateDict = std::map<std::string, at::Tensor>;

}  // namespace partita

namespace partita::internal {

// Adds the parameters, whose states are of this dtype, to `state` on rank 0 of `data`, in host memory. sliced: ranks
// have different slices. Collective.
void gather_state(const ShardedParameters&, DType states, Communicator& data, bool sliced, StateDict& state);
// The number of keys that belong to the parameters. Error, on every rank: one is missing, or has another shape.
size_t require_state(const ShardedParameters&, const StateDict&);
// Takes this rank's parts; the weights must be published after.
void take_state(const ShardedParameters&, const StateDict&);

// The elements of a box, row by row, of a tensor of the whole parameter.
[[nodiscard]] at::Tensor elements_of(const at::Tensor& whole, const Box&);

}  // namespace partita::internal
