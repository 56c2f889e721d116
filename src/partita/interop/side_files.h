// Small files that a Hugging Face folder holds next to weights and tokenizer, and that others ask for: special tokens,
// chat templates, how to generate. They are kept in a run's folder and exported again.
//
//   for (const auto& [name, path] : side_files(folder)) write_file(out / name, read_file(path));
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "partita/interop/model_source.h"

namespace partita::internal {

using NamedFiles =
    std::map<std::string, std::filesystem::path>;  // name in the folder, path; a name may have a folder in it

// What goes with the tokenizer of this folder: tokenizer_config.json, special_tokens_map.json, added_tokens.json and
// chat templates, those that are there.
[[nodiscard]] NamedFiles tokenizer_side_files(const std::filesystem::path& folder);

// Those and the tokenizer itself, from the first of the model's folders that has each.
[[nodiscard]] NamedFiles side_files(const ModelSource&);

// What an export of a model that was trained here adds, for what is missing in `files`: a tokenizer_config.json that
// names class and end of text (of a tokenizer.json), and a generation_config.json. Name, content.
[[nodiscard]] std::map<std::string, std::string> missing_side_files(const ModelSource&, const NamedFiles& files);

// Ids of config.json: the model's own, those of its generation_config.json, or the tokenizer's end of a document. null
// where nothing is known: GPT-2's and Llama's classes would put their own.
[[nodiscard]] nlohmann::json token_ids(const ModelSource&);

}  // namespace partita::internal
