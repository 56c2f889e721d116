#include "partita/tokenizer/sentencepiece_unigram.h"

#include <algorithm>
#include <limits>

namespace partita {
namespace {

constexpr float kUnknownPenalty = 10, kResetBeyond = 100000;

float unknown_score(const SentencePieceModel& model) {
  float lowest = std::numeric_limits<float>::max();
  for (const auto& piece : model.pieces) {
    if (piece.type == SentencePieceModel::PieceType::normal) lowest = std::min(lowest, piece.score);
  }
  return lowest - kUnknownPenalty;
}

UnigramLattice<float> make_lattice(const SentencePieceModel& model) {
  const std::vector<std::string> texts = compact_pieces(model);
  std::vector<UnigramLattice<float>::ScoredPiece> pieces;
  for (size_t id = 0; id < texts.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (texts[id].empty() || piece.type == SentencePieceModel::PieceType::unused) continue;
    // User-defined pieces win against all others, and one against several in its place: a tenth a byte but one.
    const bool user_defined = piece.type == SentencePieceModel::PieceType::user_defined;
    const double bonus = 0.1 * static_cast<double>(static_cast<int>(piece.text.size()) - 1);
    pieces.push_back({texts[id], static_cast<TokenId>(id), user_defined ? static_cast<float>(bonus) : piece.score});
  }
  return {pieces, unknown_score(model), kResetBeyond};
}

}  // namespace

SentencePieceUnigram::SentencePieceUnigram(const SentencePieceModel& model)
    : unknown_(sentencepiece_unknown(model)), lattice_(make_lattice(model)) {}

class SentencePieceUnigramSegmenter final : public SentencePieceSegmenter {
 public:
  SentencePieceUnigramSegmenter(const UnigramLattice<float>& lattice, const UnknownChars& unknown)
      : lattice_(&lattice), unknown_(&unknown) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    walk_.begin_text();
    bool after_unknown = false;
    lattice_->joins().for_each_unit(text, [&](size_t begin, size_t end) {
      for (const UnigramPiece& piece : lattice_->segment(text.substr(begin, end - begin), walk_)) {
        const bool is_unknown = piece.id == UnigramPiece::kUnknown;
        if (is_unknown) {
          unknown_->append(text.substr(begin + piece.begin, piece.end - piece.begin), after_unknown, ids);
        } else {
          ids.push_back(piece.id);
        }
        after_unknown = is_unknown;
      }
    });
  }

 private:
  const UnigramLattice<float>* lattice_;
  const UnknownChars* unknown_;
  UnigramLattice<float>::Walk walk_;
};

std::unique_ptr<SentencePieceSegmenter> SentencePieceUnigram::make_segmenter() const {
  return std::make_unique<SentencePieceUnigramSegmenter>(lattice_, unknown_);
}

}  // namespace partita
