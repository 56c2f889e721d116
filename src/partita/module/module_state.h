// Master weights and optimizer states of sharded parameters as whole tensors, for checkpoints of users' modules: what
// one number of ranks and stage has written, another reads.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/comm/mesh.h"
#include "partita/engine/sharded_parameters.h"
#include "partita/module/parameter_group.h"

namespace partita {

// "first.weight": its master weights; "first.weight/adamw.m": an optimizer state.
using StateDict = std::map<std::string, at::Tensor>;

}  // namespace partita

namespace partita::internal {

// Which ranks have different parts of a state, and who gets the whole of a stage.
struct StateRanks {
  std::vector<Communicator*> groups;
  bool receives = true;  // this rank
};
// The groups of a mesh among whose ranks the parameters or states of a stage are divided. sliced: those of data
// parallelism are.
[[nodiscard]] StateRanks state_ranks(const Mesh&, bool sliced);

// Adds the parameters, whose states are of this dtype, to `state` on the rank that receives them, in host memory.
// Collective.
void gather_state(const ShardedParameters&, DType states, const StateRanks&, StateDict& state);
// With pipeline parallelism each rank has the parameters of its stages. Adds what the other ranks have to the state of
// the first. Collective over the pipeline.
void gather_stages(Communicator& pipeline, StateDict&);
// The parameters of all ranks, in their order, each once, in host memory. Collective over the pipeline.
[[nodiscard]] std::vector<NamedParameter> all_stages(Communicator& pipeline, std::vector<NamedParameter> own);
// Runs a check on every rank; its error, on any of them, is that of all. Collective.
void require_on_all(Communicator&, const std::function<void()>& check);
// The number of different keys. Collective over the pipeline.
[[nodiscard]] size_t distinct_keys(Communicator& pipeline, const std::vector<std::string>& own);

// The keys that belong to the parameters. Error, on every rank: one is missing, or has another shape.
std::vector<std::string> require_state(const ShardedParameters&, const StateDict&);
// Takes this rank's parts; the weights must be published after.
void take_state(const ShardedParameters&, const StateDict&);

// The elements of a box, row by row, of a tensor of the whole parameter.
[[nodiscard]] at::Tensor elements_of(const at::Tensor& whole, const Box&);
// The same of the tensor that this rank has of the parameter: its boxes, stacked by rows (ParameterSpec::local).
[[nodiscard]] at::Tensor held_elements(const at::Tensor& held, const ParameterSpec&, const Box&);
// A tensor of the whole parameter, in host memory, from what all ranks have. Collective.
[[nodiscard]] at::Tensor gather_whole(const at::Tensor& held, const ParameterSpec&, const StateRanks&);

}  // namespace partita::internal
