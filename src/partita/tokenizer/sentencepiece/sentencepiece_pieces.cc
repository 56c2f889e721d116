#include "partita/tokenizer/sentencepiece/sentencepiece_pieces.h"

#include "partita/tokenizer/sentencepiece/sentencepiece_normalizer.h"

namespace partita::internal {

std::string spaces_for_blocks(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool block = text.substr(at).starts_with(kSpaceBlock);
    out += block ? ' ' : text[at];
    at += block ? kSpaceBlock.size() : 1;
  }
  return out;
}

std::vector<std::string> compact_pieces(const SentencePieceModel& model) {
  std::vector<std::string> texts(model.pieces.size());
  const bool escape = model.normalizer.escape_whitespaces;
  for (size_t id = 0; id < texts.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    if (!piece.is_text() || piece.text.find('\0') != std::string::npos) continue;
    // Normalized text contains no spaces if they are escaped.
    if (escape && piece.text.find(' ') != std::string::npos) continue;
    texts[id] = escape ? spaces_for_blocks(piece.text) : piece.text;
  }
  return texts;
}

UnknownChars sentencepiece_unknown(const SentencePieceModel& model) {
  UnknownChars unknown;
  unknown.space_is_block = model.normalizer.escape_whitespaces;
  if (model.byte_fallback) {
    unknown.as = UnknownChars::As::bytes;
    unknown.bytes = model.byte_pieces();
  } else {
    unknown.as = UnknownChars::As::fused;
    unknown.unk = *model.unknown();
  }
  return unknown;
}

}  // namespace partita::internal
