// Tokenizers: convert text to token ids and back.
//
//   const auto tokenizer = load_tokenizer("runs/quickstart/tokenizer.json");
//   std::vector<TokenId> ids = tokenizer->encode("Hello world");
//   std::string text = tokenizer->decode(ids);              // the same bytes, for any bytes
//
//   const auto encoder = tokenizer->make_encoder();         // one per thread, for many texts: it caches pretokens
//   for (std::string_view document : texts) encoder->encode(document, ids);   // appends
//
// A tokenizer is immutable and thread-safe; an encoder belongs to one thread. By default, text that spells a special
// token such as "<|endoftext|>" is ordinary text, so that a document cannot forge its own end, and no tokens are added
// around a text; EncodeOptions change both.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

using TokenId = int32_t;

struct EncodeOptions {
  // Text that spells a special token becomes that token, as in Hugging Face's tokenizers and with tiktoken's
  // allowed_special="all".
  bool allow_special = false;
  // Add the tokens that the tokenizer file puts around a text, such as a leading <s> (post_processor, add_bos_token).
  bool add_special = false;
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`, which may hold any bytes.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) = 0;
};

// Special tokens as spelled in text.
struct SpecialTokens {
  std::vector<std::string> spellings;
  bool found_in_text = true;  // matched by EncodeOptions::allow_special
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  [[nodiscard]] virtual std::unique_ptr<Encoder> make_encoder(const EncodeOptions& options) const = 0;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder() const { return make_encoder(EncodeOptions{}); }
  // Ids are 0 .. vocab_size()-1, including special tokens.
  [[nodiscard]] virtual int64_t vocab_size() const = 0;
  // The token that ends a document, if the tokenizer has one ("<|endoftext|>", or its only special token).
  [[nodiscard]] virtual std::optional<TokenId> end_of_document() const = 0;
  [[nodiscard]] virtual SpecialTokens special_tokens() const { return {}; }
  // Tokens that EncodeOptions::add_special prepends to a text.
  [[nodiscard]] virtual std::span<const TokenId> tokens_in_front() const { return {}; }
  // The bytes of a token, possibly part of a character. Error: id outside 0 .. vocab_size()-1.
  [[nodiscard]] virtual std::string_view bytes_of(TokenId id) const = 0;

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The text of the ids: their bytes concatenated, special tokens as their names. A tokenizer that prepends a space to
  // a text removes it again, which bytes_of() cannot do for a single token.
  [[nodiscard]] virtual std::string decode(std::span<const TokenId> ids) const;
};

// Loads a Hugging Face tokenizer.json (tokenizer_json.h), a SentencePiece tokenizer.model (sentencepiece.h), a tiktoken
// file (tiktoken.h; "FILE:KIND" if the file name does not determine the kind), a GPT-2 vocab.json with merges.txt in
// the same folder, or a folder with one of these, tried in this order. Formats are recognized by content, not by file
// name. A tokenizer_config.json in the same folder is read too (tokenizer_config.h). Error: names the file, and the
// unsupported field.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

// GPT-2's pair of files, under any names (gpt2_files.h).
[[nodiscard]] std::unique_ptr<Tokenizer> load_gpt2(const std::filesystem::path& vocab,
                                                   const std::filesystem::path& merges);

}  // namespace partita
