// The validated contents of SentencePiece's tokenizer.model (a protobuf ModelProto).
//
//   const SentencePieceModel model = parse_sentencepiece_model(read_file("tokenizer.model"), "tokenizer.model");
//
// Fields used only in training are ignored.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct SentencePieceNormalizerSpec {
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;          // add a space before (or after) each text
  bool remove_extra_whitespaces = true;  // remove spaces at both ends and collapse repeated ones
  bool escape_whitespaces = true;        // write spaces as U+2581
};

struct SentencePieceModel {
  enum class PieceType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;

    // Whether text can become this piece, or a part of it.
    [[nodiscard]] bool is_text() const {
      return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::unused;
    }
  };
  enum class Type : uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  using NormalizerSpec = SentencePieceNormalizerSpec;

  std::vector<Piece> pieces;  // by id
  // trainer_spec
  Type type = Type::unigram;
  bool treat_whitespace_as_suffix = false;
  bool byte_fallback = false;
  std::string bos_piece = "<s>", eos_piece = "</s>";
  std::string unk_surface = " \xE2\x81\x87 ";  // text that an unknown piece decodes to
  NormalizerSpec normalizer;
  std::optional<NormalizerSpec> denormalizer;

  // The piece of type `unknown`; only a model with byte_fallback may lack it.
  [[nodiscard]] std::optional<TokenId> unknown() const;
  // The piece of type `control` with this text.
  [[nodiscard]] std::optional<TokenId> control(std::string_view text) const;
  // With byte_fallback: the ids of the byte pieces.
  [[nodiscard]] std::array<TokenId, 256> byte_pieces() const;
};

// Error (begins with `origin`, names the field): not a ModelProto; a piece that is empty, too long (8000 bytes) or
// duplicated; no or several unknown pieces; byte pieces without byte_fallback, or not all 256 of them with it.
[[nodiscard]] SentencePieceModel parse_sentencepiece_model(std::string_view bytes, std::string_view origin);

}  // namespace partita::internal
