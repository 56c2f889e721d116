// Hugging Face's tokenizer.json.
//
//   const auto tokenizer = read_tokenizer_json("tokenizer.json");     // any of those below
//   BpeModel model = load_tokenizer_json("tokenizer.json");           // the model of a byte-level BPE alone
//   save_tokenizer_json(model, "copy.json");          // the package `tokenizers` loads it and makes the same ids
//
// Known are the models BPE, over bytes (where ByteLevel is a pre-tokenizer) or over characters, and Unigram, with
// merges as strings or pairs, ignore_merges, byte_fallback and fuse_unk; the normalizers NFC, NFD, NFKC, NFKD, Prepend,
// Replace, Strip and StripAccents; the pre-tokenizers ByteLevel, Split, Digits, Punctuation, WhitespaceSplit and
// Metaspace; Sequences of all; added tokens with every flag; post-processors with tokens around a text; decoders of
// these. What would change the ids and is not supported (another type, dropout, truncation, ...) is an error that names
// the field and its value, never passed over.
//
// Ids are those of `tokenizers` 0.23 with encode_special_tokens set, and without where EncodeOptions::allow_special,
// add_special_tokens as EncodeOptions::add_special. Text that is not UTF-8 it cannot take: here a byte-level model
// encodes its bytes, another the text with U+FFFD for ill-formed parts.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "partita/tokenizer/bpe/bpe_model.h"

namespace partita::internal {

[[nodiscard]] std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& path);
// The same from the file's content; `origin` begins the messages.
[[nodiscard]] std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, std::string_view origin);

// The model alone. Error: not a byte-level BPE.
[[nodiscard]] BpeModel load_tokenizer_json(const std::filesystem::path& path);
[[nodiscard]] BpeModel parse_tokenizer_json_model(std::string_view json, std::string_view origin);

// GPT-2's manner: ByteLevel and special tokens. Written in one step: a reader sees the old file or the whole new one.
void save_tokenizer_json(const BpeModel& model, const std::filesystem::path& path);
[[nodiscard]] std::string format_tokenizer_json(const BpeModel& model);

}  // namespace partita::internal
