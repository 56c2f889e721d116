// SentencePiece tokenizers (T. Kudo and J. Richardson, EMNLP 2018, demo): loads BPE and unigram models from
// tokenizer.model. Ids equal those of the sentencepiece package for any input, including ill-formed UTF-8.
//
//   const auto tokenizer = load_sentencepiece("tokenizer.model");
//   std::vector<TokenId> ids = tokenizer->encode("Hello world");
//   std::string text = tokenizer->decode(ids);
//
// EncodeOptions::add_special prepends <s>, if the model has it, as Llama and Mistral do. allow_special has no effect:
// control pieces are never matched in text, user-defined pieces always are.
#pragma once
#include <filesystem>
#include <memory>
#include <string_view>

#include "partita/tokenizer/sentencepiece/sentencepiece_model.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_normalizer.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_pieces.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // Error (begins with `origin`): a word or character model, broken normalization rules.
  explicit SentencePieceTokenizer(SentencePieceModel model, std::string_view origin = "tokenizer.model",
                                  bool puts_begin = true);
  SentencePieceTokenizer(const SentencePieceTokenizer&) = delete;  // its parts refer to each other
  SentencePieceTokenizer& operator=(const SentencePieceTokenizer&) = delete;

  using Tokenizer::make_encoder;
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions& options) const override;
  [[nodiscard]] int64_t vocab_size() const override { return static_cast<int64_t>(model_.pieces.size()); }
  // </s>
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return end_of_document_; }
  [[nodiscard]] SpecialTokens special_tokens() const override;
  [[nodiscard]] std::span<const TokenId> tokens_in_front() const override {
    return beginning_ ? std::span<const TokenId>(&*beginning_, 1) : std::span<const TokenId>();
  }
  // A piece with real spaces, the byte of a byte piece, empty for control pieces.
  [[nodiscard]] std::string_view bytes_of(TokenId id) const override;
  // Like the reference: drops the space prepended to the text, and writes U+FFFD for bytes that are not UTF-8.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const override;

  [[nodiscard]] const SentencePieceModel& model() const { return model_; }

 private:
  friend class SentencePieceEncoder;

  SentencePieceModel model_;
  ByteTrie user_defined_;  // in their original form, for the normalizer
  SentencePieceNormalizer normalizer_;
  std::optional<SentencePieceNormalizer> denormalizer_;
  std::unique_ptr<SentencePieceAlgorithm> algorithm_;
  std::optional<TokenId> beginning_, end_of_document_;
  std::vector<std::string> bytes_;  // by id
};

// puts_begin: EncodeOptions::add_special prepends <s>, if the model has it. Error: names the file and the field.
[[nodiscard]] std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& path, bool puts_begin = true);

// Whether `head`, the first 64 or more bytes of a file, looks like a tokenizer.model rather than text lines (tiktoken)
// or JSON.
[[nodiscard]] bool looks_like_sentencepiece(std::string_view head);

}  // namespace partita::internal
