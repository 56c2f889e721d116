// What SentencePiece's tokenizer.model holds (a protobuf ModelProto), checked.
//
//   const SentencePieceModel model = parse_sentencepiece_model(read_file("tokenizer.model"), "tokenizer.model");
//
// Fields that only training reads are passed over.
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
  bool add_dummy_prefix = true;          // a space in front (or behind) of each text
  bool remove_extra_whitespaces = true;  // at both ends, and of two neighbours
  bool escape_whitespaces = true;        // spaces become U+2581
};

struct SentencePieceModel {
  enum class PieceType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;

    // May text become it, or a part of it?
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
  std::string unk_surface = " \xE2\x81\x87 ";  // what an unknown piece is decoded to
  NormalizerSpec normalizer;
  std::optional<NormalizerSpec> denormalizer;

  // The piece of type `unknown`; none only with byte_fallback.
  [[nodiscard]] std::optional<TokenId> unknown() const;
  // The piece of type `control` with this text.
  [[nodiscard]] std::optional<TokenId> control(std::string_view text) const;
  // With byte_fallback: the ids of the bytes' pieces.
  [[nodiscard]] std::array<TokenId, 256> byte_pieces() const;
};

// Error (begins with `origin`, names the field): not such a message, a piece that is empty, too long (8000 bytes) or
// there twice, no or several unknown pieces, byte pieces without byte_fallback or less than all 256 with it.
[[nodiscard]] SentencePieceModel parse_sentencepiece_model(std::string_view bytes, std::string_view origin);

}  // namespace partita::internal
