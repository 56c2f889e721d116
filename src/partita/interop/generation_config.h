// generation_config.json: the publisher's settings for text generation. Read with the model, kept with runs that start
// from the model, and exported again.
//
//   const GenerationConfig generation = parse_generation_config(read_json(path), path);
//   stop_at(generation.eos_token_ids);
//   for (const std::string& warning : generation.warnings) log::warn("{}", warning);
//
// Fields that would change the text and are not implemented (beams, penalties, ...) are listed in `warnings` rather
// than raised as errors: losses do not depend on them.
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
  std::vector<int64_t> eos_token_ids;  // any of them ends a text; empty: unspecified
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::optional<bool> do_sample;  // false, or `fields` without do_sample: greedy
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k;  // 0: all
  std::optional<int64_t> max_new_tokens;
  nlohmann::json fields = nlohmann::json::object();  // the whole file, which an export writes again
  std::vector<std::string> warnings;                 // one per line
};

// Fields known in transformers 4 and 5.
[[nodiscard]] std::span<const internal::KnownField> generation_fields();

// Error: not an object, a field of the wrong type or range; names `path` and the field.
[[nodiscard]] GenerationConfig parse_generation_config(const nlohmann::json& root, const std::filesystem::path& path);

// The settings of a folder: its generation_config.json if present; missing token ids come from config.json (`tokens`:
// hf_config.h).
[[nodiscard]] GenerationConfig read_generation_config(const std::filesystem::path& folder,
                                                      const nlohmann::json& tokens = nlohmann::json::object());

inline constexpr const char* kGenerationFile = "generation_config.json";

}  // namespace partita
