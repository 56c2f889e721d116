// A checkpoint's record of the run besides tensors: progress, model, and the properties that identify the run.
//
//   state.scalars = to_json(RunState{.step = 100, ...});
//   RunState saved = run_state(read_manifest(folder), folder);
//   check_same_model(saved, config.model, config.lora, folder);
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/stored_types.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita::internal {

struct RunState {
  int64_t step = 0, consumed_samples = 0;
  std::vector<int64_t> planned_samples;  // of the whole run, one entry each time it was planned (training_data.h)
  int64_t skipped_steps = 0, nan_steps = 0;
  double grad_norm = 0;             // of the last update, by which memory.early_updates clips the next one; 0: none
  double loss_scale = 0;            // for fp16; 0: none
  int64_t clean_steps = 0;          // since the scale last changed
  std::vector<float> amax_history;  // for fp8 with delayed scaling (engine/amax_history.h); empty: none
  ModelConfig model;
  LoraConfig lora;             // for a run with adapters, whose checkpoint holds only these
  std::filesystem::path base;  // base model of the adapters
  StoredTypes stored_as;       // element types of imported weights in their original files; otherwise F32
  std::map<std::string, std::string> identity;  // data and seeds, by name
};

[[nodiscard]] nlohmann::json to_json(const RunState&);
// Error: a value is missing, of the wrong type or out of range; names `folder` and the value.
[[nodiscard]] RunState run_state(const nlohmann::json& scalars, const std::filesystem::path& folder);
// Also checks that the manifest has the same step.
[[nodiscard]] RunState run_state(const Manifest&, const std::filesystem::path& folder);

// Error unless both configs compute the same function of the same weights: sizes, heads, epsilon, rotation. Dropout may
// differ, and with rotary positions, which have no weights, so may max_length.
void check_same_function(const ModelConfig& found, const ModelConfig& wanted, const std::filesystem::path& folder);
// The same, also requiring the same adapters.
void check_same_model(const RunState& saved, const ModelConfig&, const LoraConfig&,
                      const std::filesystem::path& folder);

struct Difference {
  std::string name, before, now;
};

// The names present in both whose values differ.
[[nodiscard]] std::vector<Difference> differences(const std::map<std::string, std::string>& saved,
                                                  const std::map<std::string, std::string>& now);

}  // namespace partita::internal
