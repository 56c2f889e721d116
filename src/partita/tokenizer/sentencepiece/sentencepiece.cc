#include "partita/tokenizer/sentencepiece/sentencepiece.h"

#include "partita/base/error.h"
#include "partita/tokenizer/byte_tokens.h"
#include "partita/tokenizer/formats/tokenizer_files.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_bpe.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_pieces.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_unigram.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

using PieceType = SentencePieceModel::PieceType;

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

ByteTrie user_defined_of(const SentencePieceModel& model) {
  std::vector<ByteTrie::String> strings;
  for (const auto& piece : model.pieces) {
    if (piece.type == PieceType::user_defined) strings.push_back({piece.text, 0});
  }
  return ByteTrie(std::move(strings));
}

std::string bytes_of_piece(const SentencePieceModel& model, const SentencePieceModel::Piece& piece) {
  switch (piece.type) {
    case PieceType::control:
      return "";
    case PieceType::unknown:
      return model.unk_surface;
    case PieceType::byte:
      return std::string(1, static_cast<char>(byte_of_token_name(piece.text).value()));
    default:
      return spaces_for_blocks(piece.text);
  }
}

std::unique_ptr<SentencePieceAlgorithm> make_algorithm(const SentencePieceModel& model, std::string_view origin) {
  switch (model.type) {
    case SentencePieceModel::Type::unigram:
      return std::make_unique<SentencePieceUnigram>(model);
    case SentencePieceModel::Type::bpe:
      return std::make_unique<SentencePieceBpe>(model);
    default:
      fail("{}: trainer_spec.model_type {} is not supported: UNIGRAM or BPE expected", origin,
           model.type == SentencePieceModel::Type::word ? "WORD" : "CHAR");
  }
}

// Writes U+FFFD for each byte that is not part of well-formed UTF-8.
void append_utf8_bytes(std::string_view bytes, std::string& text) {
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = decode_utf8(bytes, at);
    text += c.value == kInvalidByte ? kReplacementCharacter : bytes.substr(at, c.bytes);
    at += c.bytes;
  }
}

}  // namespace

class SentencePieceEncoder final : public Encoder {
 public:
  SentencePieceEncoder(const SentencePieceTokenizer& tokenizer, std::optional<TokenId> first)
      : normalizer_(&tokenizer.normalizer_), segmenter_(tokenizer.algorithm_->make_segmenter()), first_(first) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    if (first_) ids.push_back(*first_);
    normalizer_->normalize(text, normalized_);
    segmenter_->encode(normalized_, ids);
  }

 private:
  const SentencePieceNormalizer* normalizer_;
  std::unique_ptr<SentencePieceSegmenter> segmenter_;
  std::optional<TokenId> first_;
  std::string normalized_;
};

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model, std::string_view origin, bool puts_begin)
    : model_(std::move(model)),
      user_defined_(user_defined_of(model_)),
      normalizer_(model_.normalizer, model_.treat_whitespace_as_suffix, user_defined_, SpaceForm::compact,
                  fmt::format("{}: normalizer_spec.precompiled_charsmap", origin)),
      algorithm_(make_algorithm(model_, origin)),
      beginning_(puts_begin ? model_.control(model_.bos_piece) : std::nullopt),
      end_of_document_(model_.control(model_.eos_piece)) {
  static const ByteTrie kNone;
  if (model_.denormalizer && !model_.denormalizer->precompiled_charsmap.empty()) {
    denormalizer_.emplace(*model_.denormalizer, false, kNone, SpaceForm::literal,
                          fmt::format("{}: denormalizer_spec.precompiled_charsmap", origin));
  }
  for (const auto& piece : model_.pieces) bytes_.push_back(bytes_of_piece(model_, piece));
}

std::unique_ptr<Encoder> SentencePieceTokenizer::make_encoder(const EncodeOptions& options) const {
  return std::make_unique<SentencePieceEncoder>(*this, options.add_special ? beginning_ : std::nullopt);
}

SpecialTokens SentencePieceTokenizer::special_tokens() const {
  SpecialTokens special{.spellings = {}, .found_in_text = false};
  for (const auto& piece : model_.pieces)
    if (piece.type == PieceType::control && !piece.text.empty()) special.spellings.push_back(piece.text);
  return special;
}

std::string_view SentencePieceTokenizer::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) fail("token {} is outside the vocabulary 0..{}", id, vocab_size() - 1);
  return bytes_[static_cast<size_t>(id)];
}

std::string SentencePieceTokenizer::decode(std::span<const TokenId> ids) const {
  const bool skips_spaces = model_.normalizer.add_dummy_prefix || model_.normalizer.remove_extra_whitespaces;
  std::string text, bytes;
  bool at_beginning = true;  // a space here is the one prepended by the normalizer
  for (const TokenId id : ids) {
    const std::string_view piece = bytes_of(id);
    const auto& [name, score, type] = model_.pieces[static_cast<size_t>(id)];
    if (type == PieceType::byte) {
      bytes += piece;
      continue;
    }
    append_utf8_bytes(bytes, text);
    bytes.clear();
    if (!text.empty()) at_beginning = false;
    if (type == PieceType::control) continue;
    bool skip = at_beginning && skips_spaces && name.starts_with(kSpaceBlock);
    if (type == PieceType::unknown) {
      text += piece;
    } else {
      text += piece.substr(skip ? 1 : 0);
    }
    // If extra spaces are removed, all leading spaces are dropped.
    if (model_.normalizer.remove_extra_whitespaces) skip = false;
    if (skip || !text.empty()) at_beginning = false;
  }
  append_utf8_bytes(bytes, text);
  if (!denormalizer_) return text;
  std::string out;
  denormalizer_->normalize(text, out);
  return out;
}

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& path, bool puts_begin) {
  const std::string origin = path.string();
  return std::make_unique<SentencePieceTokenizer>(parse_sentencepiece_model(read_tokenizer_file(path), origin), origin,
                                                  puts_begin);
}

bool looks_like_sentencepiece(std::string_view head) {
  // The file begins with a piece: field 1 with a length below 128, in it field 1 again (the piece's text), then a score
  // (field 2) or a type (field 3).
  constexpr char kField1 = '\x0A', kField2 = '\x15', kField3 = '\x18';
  if (head.size() < 5 || head[0] != kField1 || head[2] != kField1) return false;
  const size_t piece = static_cast<unsigned char>(head[1]), text = static_cast<unsigned char>(head[3]);
  if (piece >= 128 || text + 2 >= piece || text + 4 >= head.size()) return false;
  return head[4 + text] == kField2 || head[4 + text] == kField3;
}

}  // namespace partita::internal
