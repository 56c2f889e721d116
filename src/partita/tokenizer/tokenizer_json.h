// Hugging Face's tokenizer.json, as far as byte-level BPE in GPT-2's manner goes: ByteLevel without a prefix space,
// merges as strings or pairs, special added tokens.
//
//   BpeModel model = load_tokenizer_json("tokenizer.json");
//   save_tokenizer_json(model, "copy.json");          // the package `tokenizers` loads it and makes the same ids
//
// What would change the ids and is not supported (a normalizer, another pre-tokenizer, dropout, ignore_merges, ...) is
// an error that names the field and its value, never passed over. `truncation`, `padding`, `decoder` and a ByteLevel or
// null `post_processor` do not change ids.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "partita/tokenizer/bpe_model.h"

namespace partita {

[[nodiscard]] BpeModel load_tokenizer_json(const std::filesystem::path& path);
// The same from the file's content; `origin` begins the messages.
[[nodiscard]] BpeModel parse_tokenizer_json(std::string_view json, std::string_view origin);

// Written in one step: a reader sees the old file or the whole new one.
void save_tokenizer_json(const BpeModel& model, const std::filesystem::path& path);
[[nodiscard]] std::string format_tokenizer_json(const BpeModel& model);

}  // namespace partita
