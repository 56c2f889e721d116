// Saving an engine and continuing from a checkpoint.
//
//   EnginePosition at = resume_engine(engine, {model}, mesh, "runs/mine").value_or(EnginePosition{});
//   for (; at.step < steps; ++at.step, at.consumed_samples += 64) {
//     const StepResult r = engine.step(loader.read(at.consumed_samples),
//                                      {.step = at.step, .update = at.step - at.skipped_steps, .learning_rate = 6e-4});
//     at.skipped_steps += r.skipped ? 1 : 0;
//   }
//   save_engine(engine, {model}, mesh, "runs/mine", at);
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/contents.h"
#include "partita/comm/mesh.h"
#include "partita/engine/engine.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita {

// How far training has come.
struct EnginePosition {
  int64_t step = 0, consumed_samples = 0;
  int64_t skipped_steps = 0;  // StepResult::skipped; StepInput::update is step - skipped_steps
};

// What a checkpoint says of an engine's parameters.
struct CheckpointModel {
  ModelConfig model;
  LoraConfig lora;             // rank 0: no adapters; otherwise the checkpoint holds only these
  std::filesystem::path base;  // and this is the model that they adapt: what open_model takes
};

// Writes weights and optimizer states as RUN/checkpoints/step-STEP, which resume_engine continues from on any number of
// ranks, and which `partita eval`, `generate`, `export` and open_model read. All ranks call it together. Returns the
// checkpoint. Errors: those of save_checkpoint; adapters without a base.
std::filesystem::path save_engine(const Engine&, const CheckpointModel&, const Mesh&, const std::filesystem::path& run,
                                  EnginePosition, const Retention& = {});

// Loads the newest checkpoint of RUN; none where there is none. Of an engine with adapters load the base first. All
// ranks call it together. Errors: those of find_latest and load_checkpoint; a checkpoint of another model.
std::optional<EnginePosition> resume_engine(Engine&, const CheckpointModel&, const Mesh&,
                                            const std::filesystem::path& run);

namespace internal {

// all: every weight of the model. adapters: only the adapters, including frozen ones, which is all that a run with
// adapters needs to save.
enum class Part : uint8_t { all, adapters };

// What this rank must load to resume: master weights as "model/NAME" and, for trained parameters, optimizer states
// "adamw.m/NAME" and "adamw.v/NAME". Call engine.publish_weights() after loading.
[[nodiscard]] CheckpointContents wanted_contents(const Engine&, Part);
// Its share of what is written: where several ranks hold the same slices, each writes its equal part of each box, so
// that every element is written once.
[[nodiscard]] CheckpointContents saved_contents(const Engine&, Part);
[[nodiscard]] CheckpointContents saved_contents(const Engine&, Part, int replica, int replicas);

}  // namespace internal
}  // namespace partita
