// tokenizer_config.json next to a tokenizer's file (and special_tokens_map.json and added_tokens.json, which older
// folders have): of its fields those that change ids are used or refused by name, as transformers 5 reads them; the
// rest says nothing about ids.
//
//   const TokenizerConfig config = read_tokenizer_config("models/llama2");
//   check_tokenizer_config(config, *tokenizer, format);
//
// add_bos_token, add_eos_token: of a tokenizer.json transformers takes no notice of them, its post_processor says what
// is put around a text. Next to a tokenizer.model the first is used and the second refused.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "partita/tokenizer/formats/tokenizer_files.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct TokenizerConfig {
  std::filesystem::path file;  // or the folder, if it has only the others; empty: it has none
  std::string tokenizer_class;
  std::optional<bool> add_bos_token, add_eos_token, add_prefix_space;
  bool split_special_tokens = false;
  // Spellings of bos_token, eos_token, pad_token, ..., of extra and added tokens, with the field that has each.
  struct Named {
    std::string field, spelling;
  };
  std::vector<Named> tokens;
};

// Whether it is known what the field means: it is used, names tokens, or does not change ids (of lengths, decoding,
// chats and other programs). Others are named when a file is read, and not used.
[[nodiscard]] bool is_known_tokenizer_field(std::string_view name);

// Of a folder; nothing of a folder without the file. Error: not JSON, a field of another kind.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

// Error: a field that makes other ids than this tokenizer. Says which tokens the file names that the tokenizer lacks:
// they are ordinary text, and transformers would add them.
void check_tokenizer_config(const TokenizerConfig& config, const Tokenizer& tokenizer, TokenizerFormat format);

}  // namespace partita::internal
