// Writes a checkpoint that holds only weights, from any source, as an import does. Tensors are streamed, so memory use
// does not grow with the model.
//
//   write_weights(folder, 0, specs, source, scalars);      // folder/manifest.json, folder/rank-00000.safetensors
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "partita/checkpoint/weight_source.h"

namespace partita::internal {

// Fills an existing empty folder, which is a complete checkpoint on return. The tensors are "model/NAME" in fp32, one
// piece each. Errors: those of the source; not enough space (checked first).
void write_weights(const std::filesystem::path& folder, int64_t step, std::span<const ParameterSpec>,
                   const WeightSource&, const nlohmann::json& scalars);

}  // namespace partita::internal
