#include "partita/tokenizer/sentencepiece/sentencepiece_model.h"

#include <cmath>
#include <unordered_set>

#include "partita/base/error.h"
#include "partita/tokenizer/byte_tokens.h"
#include "partita/tokenizer/sentencepiece/protobuf_wire.h"

namespace partita::internal {
namespace {

using Model = SentencePieceModel;

constexpr size_t kLongestPiece = 8000;  // bytes, exclusive: same limit as the reference
constexpr std::string_view kNull("\0", 1);

Model::Piece parse_piece(std::string_view message, const std::string& origin) {
  Model::Piece piece;
  ProtobufReader reader(message, origin);
  while (const auto field = reader.next()) {
    if (field->number == 1 && field->kind == ProtobufKind::bytes) piece.text = field->bytes;
    if (field->number == 2 && field->kind == ProtobufKind::fixed32) piece.score = field->as_float();
    if (field->number == 3 && field->kind == ProtobufKind::varint) {
      const int32_t type = field->as_int32();  // unknown values are ignored, as protobuf does for enums
      if (type >= 1 && type <= 6) piece.type = static_cast<Model::PieceType>(type);
    }
  }
  return piece;
}

void parse_trainer(std::string_view message, const std::string& origin, Model& model) {
  ProtobufReader reader(message, origin);
  while (const auto field = reader.next()) {
    if (field->kind == ProtobufKind::varint) {
      if (field->number == 3) {
        const int32_t type = field->as_int32();
        if (type >= 1 && type <= 4) model.type = static_cast<Model::Type>(type);
      }
      if (field->number == 24) model.treat_whitespace_as_suffix = field->as_bool();
      if (field->number == 35) model.byte_fallback = field->as_bool();
    }
    if (field->kind == ProtobufKind::bytes) {
      if (field->number == 46 && !field->bytes.empty()) model.bos_piece = field->bytes;
      if (field->number == 47 && !field->bytes.empty()) model.eos_piece = field->bytes;
      if (field->number == 44) model.unk_surface = field->bytes;
    }
  }
}

void parse_normalizer(std::string_view message, const std::string& origin, Model::NormalizerSpec& spec) {
  ProtobufReader reader(message, origin);
  while (const auto field = reader.next()) {
    if (field->number == 2 && field->kind == ProtobufKind::bytes) spec.precompiled_charsmap = field->bytes;
    if (field->kind != ProtobufKind::varint) continue;
    if (field->number == 3) spec.add_dummy_prefix = field->as_bool();
    if (field->number == 4) spec.remove_extra_whitespaces = field->as_bool();
    if (field->number == 5) spec.escape_whitespaces = field->as_bool();
  }
}

void check_names(const Model& model, std::string_view origin) {
  // BPE has a single namespace; the other types separate pieces that occur in text from those that do not.
  std::unordered_set<std::string_view> text, other;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Model::Piece& piece = model.pieces[id];
    if (piece.text.size() >= kLongestPiece) {
      fail("{}: pieces[{}].piece has {} bytes, less than {} expected", origin, id, piece.text.size(), kLongestPiece);
    }
    if (piece.text.empty()) fail("{}: pieces[{}].piece is empty", origin, id);
    if (piece.text == kNull && piece.type == Model::PieceType::unused) continue;
    if (piece.text.find('\0') != std::string::npos) fail("{}: pieces[{}].piece holds a null character", origin, id);
    auto& names = model.type == Model::Type::bpe || piece.is_text() ? text : other;
    if (!names.insert(piece.text).second) {
      fail("{}: pieces[{}].piece \"{}\" occurs twice", origin, id, piece.text);
    }
    if (model.type == Model::Type::unigram && !std::isfinite(piece.score)) {
      fail("{}: pieces[{}].score is {}: a finite number expected", origin, id, piece.score);
    }
  }
}

void check_stand_ins(const Model& model, std::string_view origin) {
  std::optional<size_t> unknown;
  std::array<bool, 256> bytes{};
  bool has_text = false;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Model::Piece& piece = model.pieces[id];
    has_text |= piece.is_text();
    if (piece.type == Model::PieceType::unknown) {
      if (unknown) fail("{}: pieces {} and {} are both of type UNKNOWN: one expected", origin, *unknown, id);
      unknown = id;
    }
    if (piece.type != Model::PieceType::byte) continue;
    if (!model.byte_fallback) {
      fail("{}: pieces[{}] (\"{}\") is of type BYTE, but trainer_spec.byte_fallback is false", origin, id, piece.text);
    }
    const auto byte = byte_of_token_name(piece.text);
    if (!byte) fail("{}: pieces[{}].piece \"{}\" is of type BYTE: <0x00> to <0xFF> expected", origin, id, piece.text);
    bytes[*byte] = true;
  }
  if (!unknown && !model.byte_fallback) {
    fail("{}: no piece of type UNKNOWN, which a model without trainer_spec.byte_fallback needs", origin);
  }
  for (size_t byte = 0; byte < 256 && model.byte_fallback; ++byte) {
    if (bytes[byte]) continue;
    fail("{}: trainer_spec.byte_fallback needs 256 pieces of type BYTE: {} is missing", origin,
         byte_token_name(static_cast<unsigned char>(byte)));
  }
  if (!has_text && model.type == Model::Type::unigram) fail("{}: no piece that text may become", origin);
}

}  // namespace

std::optional<TokenId> Model::unknown() const {
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == PieceType::unknown) return static_cast<TokenId>(id);
  }
  return std::nullopt;
}

std::optional<TokenId> Model::control(std::string_view text) const {
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == PieceType::control && pieces[id].text == text) return static_cast<TokenId>(id);
  }
  return std::nullopt;
}

std::array<TokenId, 256> Model::byte_pieces() const {
  std::array<TokenId, 256> ids{};
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type != PieceType::byte) continue;
    if (const auto byte = byte_of_token_name(pieces[id].text)) ids[*byte] = static_cast<TokenId>(id);
  }
  return ids;
}

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, std::string_view origin) {
  Model model;
  ProtobufReader reader(bytes, std::string(origin));
  while (const auto field = reader.next()) {
    if (field->kind != ProtobufKind::bytes) continue;
    switch (field->number) {
      case 1:
        model.pieces.push_back(parse_piece(field->bytes, fmt::format("{}: pieces[{}]", origin, model.pieces.size())));
        break;
      case 2:
        parse_trainer(field->bytes, fmt::format("{}: trainer_spec", origin), model);
        break;
      case 3:
        parse_normalizer(field->bytes, fmt::format("{}: normalizer_spec", origin), model.normalizer);
        break;
      case 5:
        if (!model.denormalizer) model.denormalizer.emplace();
        parse_normalizer(field->bytes, fmt::format("{}: denormalizer_spec", origin), *model.denormalizer);
        break;
      default:
        break;
    }
  }
  if (model.pieces.empty()) fail("{}: no pieces: a SentencePiece model expected", origin);
  if (model.byte_fallback) {
    // Converted vocabularies have a null character next to the byte piece <0x00>; as in the reference, text never
    // becomes it.
    for (Model::Piece& piece : model.pieces) {
      if (piece.text == kNull) piece.type = Model::PieceType::unused;
    }
  }
  check_names(model, origin);
  check_stand_ins(model, origin);
  return model;
}

}  // namespace partita::internal
