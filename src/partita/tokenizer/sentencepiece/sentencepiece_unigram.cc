#include "partita/tokenizer/sentencepiece/sentencepiece_unigram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "partita/tokenizer/id_cache.h"
#include "partita/tokenizer/unigram/unigram_certainty.h"

namespace partita::internal {
namespace {

constexpr float kUnknownPenalty = 10, kResetBeyond = 100000;

float unknown_score(const SentencePieceModel& model) {
  float lowest = std::numeric_limits<float>::max();
  for (const auto& piece : model.pieces) {
    if (piece.type == SentencePieceModel::PieceType::normal) lowest = std::min(lowest, piece.score);
  }
  return lowest - kUnknownPenalty;
}

// User-defined pieces beat all others, and one beats several that cover the same text: 0.1 per byte, less one byte.
float score_of(const SentencePieceModel::Piece& piece) {
  if (piece.type != SentencePieceModel::PieceType::user_defined) return piece.score;
  return static_cast<float>(0.1 * static_cast<double>(static_cast<int>(piece.text.size()) - 1));
}

UnigramLattice<float> make_lattice(const SentencePieceModel& model) {
  const std::vector<std::string> texts = compact_pieces(model);
  std::vector<UnigramLattice<float>::ScoredPiece> pieces;
  for (size_t id = 0; id < texts.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (texts[id].empty() || piece.type == SentencePieceModel::PieceType::unused) continue;
    pieces.push_back({texts[id], static_cast<TokenId>(id), score_of(piece)});
  }
  return {pieces, unknown_score(model), kResetBeyond};
}

}  // namespace

SentencePieceUnigram::SentencePieceUnigram(const SentencePieceModel& model)
    : unknown_(sentencepiece_unknown(model)), lattice_(make_lattice(model)) {
  for (const auto& piece : model.pieces) scores_.push_back(score_of(piece));
}

class SentencePieceUnigramSegmenter final : public SentencePieceSegmenter {
 public:
  explicit SentencePieceUnigramSegmenter(const SentencePieceUnigram& model)
      : lattice_(&model.lattice_), unknown_(&model.unknown_), scores_(&model.scores_) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    walk_.begin_text();
    after_unknown_ = false;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t count = lattice_->joins().find_ends(text, at, ends_);
      cache_.tidy();
      for (size_t u = 0, first = begin; u < count; first = ends_[u++]) {
        lookups_[u] = cache_.start(text.data() + first, ends_[u] - first, text.size() - first);
      }
      for (size_t u = 0; u < count; begin = ends_[u++]) {
        const size_t bytes = ends_[u] - begin;
        const auto* known = IdCache::quick_find(lookups_[u], bytes);
        if (known == nullptr || !put_known(cache_.ids_of(*known), ids)) {
          encode_unit(text.substr(begin, bytes), lookups_[u], ids);
        }
      }
    }
  }

 private:
  // `known`, as cached for a unit: the bits of the (non-negative) magnitude up to which it is certain, then the ids.
  bool put_known(std::span<const TokenId> known, std::vector<TokenId>& ids) {
    float sum = walk_.sum();
    if (!(std::abs(sum) < std::bit_cast<float>(known[0]))) return false;
    for (const TokenId id : known.subspan(1)) {
      sum = (*scores_)[static_cast<size_t>(id)] + sum;  // in the lattice's order of additions
      ids.push_back(id);
    }
    walk_.set_sum(sum);
    after_unknown_ = false;
    return true;
  }

  void encode_unit(std::string_view unit, const IdCache::Lookup& lookup, std::vector<TokenId>& ids) {
    if (unit.size() <= IdCache::kLongest &&
        put_known(cache_.find_or_add(unit, lookup, [this](std::string_view text) { return segment(text); }), ids)) {
      return;
    }
    for (const UnigramPiece& piece : lattice_->segment(unit, walk_)) {
      const bool is_unknown = piece.id == UnigramPiece::kUnknown;
      if (is_unknown) {
        unknown_->append(unit.substr(piece.begin, piece.end - piece.begin), after_unknown_, ids);
      } else {
        ids.push_back(piece.id);
      }
      after_unknown_ = is_unknown;
    }
  }

  // What is cached for a unit (put_known); valid until the next call.
  std::span<const TokenId> segment(std::string_view unit) {
    const auto certain = certainty_.segment(*lattice_, unit);
    remembered_ = {std::bit_cast<TokenId>(certain.most_sum)};
    for (const UnigramPiece& piece : certain.pieces) {
      if (piece.id == UnigramPiece::kUnknown) return remembered_ = {0};  // never certain
      remembered_.push_back(piece.id);
    }
    return remembered_;
  }

  const UnigramLattice<float>* lattice_;
  const UnknownChars* unknown_;
  const std::vector<float>* scores_;
  UnigramLattice<float>::Walk walk_;
  bool after_unknown_ = false;
  UnigramCertainty certainty_;
  IdCache cache_{size_t{16} << 20};
  CharJoins::Ends ends_{};
  std::array<IdCache::Lookup, std::tuple_size_v<CharJoins::Ends>> lookups_{};
  std::vector<TokenId> remembered_;
};

std::unique_ptr<SentencePieceSegmenter> SentencePieceUnigram::make_segmenter() const {
  return std::make_unique<SentencePieceUnigramSegmenter>(*this);
}

}  // namespace partita::internal
