// tokenizer_config.json next to a tokenizer file (and special_tokens_map.json and added_tokens.json in older folders).
// Fields that affect ids are applied or rejected by name, as transformers 5 reads them; the others do not concern ids.
//
//   const TokenizerConfig config = read_tokenizer_config("models/llama2");
//   check_tokenizer_config(config, *tokenizer, format);
//
// add_bos_token, add_eos_token: next to a tokenizer.json, transformers ignores them, because the post_processor decides
// what surrounds a text. Next to a tokenizer.model, the first is applied and the second rejected.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "partita/tokenizer/formats/tokenizer_files.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct TokenizerConfig {
  std::filesystem::path file;  // or the folder, if it has only the older files; empty: none
  std::string tokenizer_class;
  std::optional<bool> add_bos_token, add_eos_token, add_prefix_space;
  bool split_special_tokens = false;
  // Spellings of bos_token, eos_token, pad_token, ..., extra and added tokens, each with its field.
  struct Named {
    std::string field, spelling;
  };
  std::vector<Named> tokens;
};

// Whether the field's meaning is known: it is applied, names tokens, or does not affect ids (lengths, decoding, chat,
// other programs). Unknown fields are reported when a file is read, and ignored.
[[nodiscard]] bool is_known_tokenizer_field(std::string_view name);

// Reads a folder's files; empty if it has none. Error: invalid JSON, a field of the wrong type.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

// Error: a field implies other ids than this tokenizer's. Reports tokens that the file names but the tokenizer lacks:
// they are ordinary text here, whereas transformers would add them.
void check_tokenizer_config(const TokenizerConfig& config, const Tokenizer& tokenizer, TokenizerFormat format);

}  // namespace partita::internal
