// Tokenizers: text to token ids and back.
//
//   const auto tokenizer = load_tokenizer("runs/quickstart/tokenizer.json");
//   const std::vector<TokenId> ids = tokenizer->encode("Hello world");
//   std::string text = tokenizer->decode(ids);              // the same bytes, for any bytes
//
//   const auto encoder = tokenizer->make_encoder();         // one a thread, for many texts: it remembers pretokens
//   for (std::string_view document : documents) encoder->encode(document, ids);   // appends
//
// A tokenizer is immutable and may be shared by threads; an encoder belongs to one thread. Text that spells a special
// token, "<|endoftext|>", is ordinary text, so that a document cannot forge its own end, and nothing is put around a
// text; EncodeOptions ask for both.
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
  // Text that spells a special token is that token, as in Hugging Face's tokenizers and in tiktoken's
  // allowed_special="all".
  bool allow_special = false;
  // The tokens that the tokenizer's file puts around a text, such as <s> in front (post_processor, add_bos_token).
  bool add_special = false;
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`, which may hold any bytes.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) = 0;
};

// Special tokens as text spells them.
struct SpecialTokens {
  std::vector<std::string> spellings;
  bool found_in_text = true;  // EncodeOptions::allow_special finds them
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  [[nodiscard]] virtual std::unique_ptr<Encoder> make_encoder(const EncodeOptions& options) const = 0;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder() const { return make_encoder(EncodeOptions{}); }
  // Ids are 0 .. vocab_size()-1, special tokens included.
  [[nodiscard]] virtual int64_t vocab_size() const = 0;
  // The token that ends a document, if the tokenizer has one ("<|endoftext|>", or its only special token).
  [[nodiscard]] virtual std::optional<TokenId> end_of_document() const = 0;
  [[nodiscard]] virtual SpecialTokens special_tokens() const { return {}; }
  // What EncodeOptions::add_special puts in front of a text.
  [[nodiscard]] virtual std::span<const TokenId> tokens_in_front() const { return {}; }
  // The bytes that an id stands for: perhaps a part of a character. Error: id outside 0 .. vocab_size()-1.
  [[nodiscard]] virtual std::string_view bytes_of(TokenId id) const = 0;

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The text of the ids: their bytes joined, special tokens as their names. A tokenizer that puts a space in front of
  // a text takes it off again, which bytes_of() by itself cannot know.
  [[nodiscard]] virtual std::string decode(std::span<const TokenId> ids) const;
};

// From a Hugging Face tokenizer.json (tokenizer_json.h), a SentencePiece tokenizer.model (sentencepiece.h), a tiktoken
// file (tiktoken.h; "FILE:KIND" where its name does not tell the kind), a GPT-2 vocab.json with merges.txt beside it,
// or a folder that holds one of these, looked for in this order. Kinds are told by content, not by the file's name.
// A tokenizer_config.json next to it is read too (tokenizer_config.h).
// Error: names the file, and the field that is not supported.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

// GPT-2's pair of files, whatever their names (gpt2_files.h).
[[nodiscard]] std::unique_ptr<Tokenizer> load_gpt2(const std::filesystem::path& vocab,
                                                   const std::filesystem::path& merges);

}  // namespace partita
