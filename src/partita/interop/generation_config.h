// generation_config.json: what a model's publisher says of writing text with it. It is read with the model, kept with a
// run that begins from the model, and exported again.
//
//   const GenerationConfig generation = parse_generation_config(read_json(path), path);
//   stop_at(generation.eos_token_ids);
//   for (const std::string& warning : generation.warnings) log::warn("{}", warning);
//
// Fields that would change the text and are not built (beams, penalties, ...) are named in `warnings`, not errors:
// losses do not depend on them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partita/interop/field_list.h"

namespace partita {

struct GenerationConfig {
  std::vector<int64_t> eos_token_ids;  // any of them ends a text; empty: not said
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::optional<bool> do_sample;  // false, or missing among `fields`: greedy
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k;  // 0: all
  std::optional<int64_t> max_new_tokens;
  nlohmann::json fields = nlohmann::json::object();  // the whole file, which an export writes again
  std::vector<std::string> warnings;                 // a line each
};

// Fields that this version knows, of transformers 4 and 5.
[[nodiscard]] std::span<const internal::KnownField> generation_fields();

// Error: not an object, a field of the wrong type or range; names `path` and the field.
[[nodiscard]] GenerationConfig parse_generation_config(const nlohmann::json& root, const std::filesystem::path& path);

// What a folder says: its generation_config.json, where that is there; ids that it leaves out are those of config.json
// (`tokens`: hf_config.h).
[[nodiscard]] GenerationConfig read_generation_config(const std::filesystem::path& folder,
                                                      const nlohmann::json& tokens = nlohmann::json::object());

inline constexpr const char* kGenerationFile = "generation_config.json";

}  // namespace partita
