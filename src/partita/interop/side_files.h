// Small files of a Hugging Face folder, besides weights and tokenizer, that other programs need: special tokens, chat
// templates, generation settings. They are kept in a run's folder and exported again.
//
//   for (const auto& [name, path] : side_files(source)) write_file(out / name, read_file(path));
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "partita/interop/model_source.h"

namespace partita::internal {

using NamedFiles =
    std::map<std::string, std::filesystem::path>;  // name in the folder (possibly with a subfolder) -> path

// Files that accompany the tokenizer of this folder, where they exist: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and chat templates.
[[nodiscard]] NamedFiles tokenizer_side_files(const std::filesystem::path& folder);

// Those and the tokenizer itself, each from the first of the model's folders that has it.
[[nodiscard]] NamedFiles side_files(const ModelSource&);

// Files that an export of a model trained here adds if missing in `files`, as name -> content: a tokenizer_config.json
// that names the class and end-of-text token (for a tokenizer.json), and a generation_config.json.
[[nodiscard]] std::map<std::string, std::string> missing_side_files(const ModelSource&, const NamedFiles& files);

// Token ids for config.json: the model's own, those of its generation_config.json, or the tokenizer's end of document.
// Unknown ids are null: if they were missing, GPT-2's and Llama's classes would use their own defaults.
[[nodiscard]] nlohmann::json token_ids(const ModelSource&);

}  // namespace partita::internal
