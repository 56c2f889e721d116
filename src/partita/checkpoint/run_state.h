// What a checkpoint says of the run beside tensors: where it stood, its model, and what made it the run it is.
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
  std::vector<int64_t> planned_samples;  // of the whole run, each time it was planned (training_data.h)
  int64_t skipped_steps = 0, nan_steps = 0;
  double loss_scale = 0;            // of fp16; 0: none
  int64_t clean_steps = 0;          // since it changed
  std::vector<float> amax_history;  // of fp8 with delayed scales (engine/amax_history.h); empty: none
  ModelConfig model;
  LoraConfig lora;                              // of a run with adapters, whose checkpoint holds these alone
  std::filesystem::path base;                   // and the model that they adapt
  StoredTypes stored_as;                        // element types of imported weights in their own files; otherwise F32
  std::map<std::string, std::string> identity;  // data and seeds, by name
};

[[nodiscard]] nlohmann::json to_json(const RunState&);
// Error: a value is missing, of another kind or beyond its range; names `folder` and the value.
[[nodiscard]] RunState run_state(const nlohmann::json& scalars, const std::filesystem::path& folder);
// Also checks that both say the same step.
[[nodiscard]] RunState run_state(const Manifest&, const std::filesystem::path& folder);

// Error unless both compute the same function of the same weights: sizes, heads, epsilon, rotation. Dropout may change,
// and so may max_length where positions are rotary, which have no weights.
void check_same_function(const ModelConfig& found, const ModelConfig& wanted, const std::filesystem::path& folder);
// The same, and of the same adapters.
void check_same_model(const RunState& saved, const ModelConfig&, const LoraConfig&,
                      const std::filesystem::path& folder);

struct Difference {
  std::string name, before, now;
};

// Of the names that are in both, those whose values differ.
[[nodiscard]] std::vector<Difference> differences(const std::map<std::string, std::string>& saved,
                                                  const std::map<std::string, std::string>& now);

}  // namespace partita::internal
