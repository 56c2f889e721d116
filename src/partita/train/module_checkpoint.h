// Saving a module of torch::nn that a ZeroOptimizer trains, and continuing from a checkpoint: on any number of ranks,
// at any ZeRO stage.
//
//   RunCounts at = resume_module(optimizer, untrained(module), mesh, "runs/mine").value_or(RunCounts{});
//   for (; at.step < steps; ++at.step) {
//     module.loss(at.step).backward();
//     optimizer.step();
//   }
//   save_module(optimizer, untrained(module), mesh, "runs/mine", at);
//
// With a pipeline: pipeline.untrained() in place of untrained(module). A checkpoint holds master weights as
// "model/NAME", states of the optimizer as "adamw.m/NAME", and buffers and frozen parameters as "untrained/NAME", as
// the first data-parallel rank has them; {buffers(module)} in place of untrained(module) leaves frozen parameters out.
// All are whole, of all stages: any mesh can go on, whatever its tensor and pipeline parallelism, if the names are the
// same. Learning rates, and the states of an optimizer of torch, are not in it.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partita/checkpoint/checkpoint.h"
#include "partita/comm/mesh.h"
#include "partita/module/zero_optimizer.h"
#include "partita/train/run_counts.h"

namespace partita {

// Writes RUN/checkpoints/step-STEP, and returns it. All ranks call it together. Errors: those of save_checkpoint; an
// optimizer of torch; two tensors of one name; stages that have buffers or frozen parameters of one name with other
// shapes, types or values (pass {} to store none); ranks with the same stages that have others.
std::filesystem::path save_module(ZeroOptimizer&, const Untrained&, const Mesh&, const std::filesystem::path& run,
                                  const RunCounts&, const Retention& = {});

// Loads the newest checkpoint of RUN into the optimizer and the module; none where there is none.
// All ranks call it together. Errors: those of find_latest and load_checkpoint, which name tensors that are missing,
// too many, or of another shape; a checkpoint of `partita train`; those of save_module for names. After an error
// nothing has changed.
std::optional<RunCounts> resume_module(ZeroOptimizer&, const Untrained&, const Mesh&, const std::filesystem::path& run);

namespace internal {

// A module's checkpoint besides its tensors.
struct ModuleState {
  RunCounts counts;
  int64_t steps = 0, updates = 0;  // of the optimizer
  std::map<std::string, std::string>
      identity;  // what must be the same for a run to go on as if it were not interrupted
};

// Error: the folder holds a checkpoint of another kind; Damaged: an invalid value.
[[nodiscard]] ModuleState read_module_state(const std::filesystem::path& folder);

// What save_module stores; pieces of trained parameters refer to the optimizer's memory. state.steps and .updates are
// the optimizer's. Collective.
[[nodiscard]] CheckpointContents saved_module(ZeroOptimizer&, const Untrained&, const Mesh&, ModuleState);
void load_module(ZeroOptimizer&, const Untrained&, const Mesh&, const std::filesystem::path& folder);

struct ModuleSize {                 // of all stages
  int64_t trained = 0, frozen = 0;  // elements of parameters
  int64_t stored_bytes = 0;         // of one checkpoint, over all ranks
};
// Collective. Errors: what save_module cannot store, but for differing values.
[[nodiscard]] ModuleSize module_size(ZeroOptimizer&, const Untrained&, const Mesh&);

}  // namespace internal
}  // namespace partita
