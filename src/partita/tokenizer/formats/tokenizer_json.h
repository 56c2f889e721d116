// Hugging Face's tokenizer.json.
//
//   const auto tokenizer = read_tokenizer_json("tokenizer.json");     // any supported model
//   BpeModel model = load_tokenizer_json("tokenizer.json");           // only the model of a byte-level BPE
//   save_tokenizer_json(model, "copy.json");          // loads in the `tokenizers` package, with the same ids
//
// Supported are the models BPE, over bytes (with a ByteLevel pre-tokenizer) or over characters, and Unigram, with
// merges as strings or pairs, ignore_merges, byte_fallback and fuse_unk; the normalizers NFC, NFD, NFKC, NFKD, Prepend,
// Replace, Strip and StripAccents; the pre-tokenizers ByteLevel, Split, Digits, Punctuation, WhitespaceSplit and
// Metaspace; Sequences of them; added tokens with every flag; post-processors that add tokens around a text; the
// corresponding decoders. Anything else that would change the ids (another type, dropout, truncation, ...) is an error
// that names the field and its value; it is never ignored.
//
// Ids equal those of `tokenizers` 0.23 with encode_special_tokens set, or unset with EncodeOptions::allow_special;
// EncodeOptions::add_special corresponds to add_special_tokens. Ill-formed UTF-8, which `tokenizers` does not accept: a
// byte-level model encodes its bytes, other models see U+FFFD.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "partita/tokenizer/bpe/bpe_model.h"

namespace partita::internal {

[[nodiscard]] std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& path);
// The same from the contents of a file; `origin` prefixes error messages.
[[nodiscard]] std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, std::string_view origin);

// Reads only the model. Error: not a byte-level BPE.
[[nodiscard]] BpeModel load_tokenizer_json(const std::filesystem::path& path);
[[nodiscard]] BpeModel parse_tokenizer_json_model(std::string_view json, std::string_view origin);

// Writes GPT-2's setup: ByteLevel and special tokens. Atomic: readers see either the old file or the complete new one.
void save_tokenizer_json(const BpeModel& model, const std::filesystem::path& path);
[[nodiscard]] std::string format_tokenizer_json(const BpeModel& model);

}  // namespace partita::internal
