// Finds the best segmentation of a text into scored pieces from left to right: for each position, the best sum of
// scores and the piece that reaches it; on ties, the piece that begins first.
//
//   UnigramLattice<float> lattice(pieces, unknown_score, reset_beyond);
//   UnigramLattice<float>::Walk walk;                 // state and buffers for one text
//   walk.begin_text();
//   for (each unit of the text)                       // lattice.joins(): no piece crosses units
//     for (const UnigramPiece& p : lattice.segment(unit, walk)) ...
//
// Sums are carried from unit to unit in `Score`, so that rounding is the same as over the whole text: it can decide
// between two nearly equal segmentations.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/char_joins.h"
#include "partita/tokenizer/tokenizer.h"
#include "partita/tokenizer/unigram/byte_trie.h"

namespace partita::internal {

struct UnigramPiece {
  uint32_t begin, end;  // in the unit
  TokenId id;           // kUnknown: a character that is not a piece
  static constexpr TokenId kUnknown = -1;
};

template <class Score>
class UnigramLattice {
 public:
  struct ScoredPiece {
    std::string_view text;
    TokenId id;
    Score score;
  };
  // `reset_beyond`: sums whose magnitude exceeds this restart at zero (SentencePiece since 0.2.2, which keeps floats
  // accurate).
  UnigramLattice(std::span<const ScoredPiece> pieces, Score unknown_score, Score reset_beyond);

  class Walk {
   public:
    void begin_text() { sum_ = 0; }
    // The best sum so far. May be set to account for a unit that was not segmented by this walk.
    [[nodiscard]] Score sum() const { return sum_; }
    void set_sum(Score sum) { sum_ = sum; }

   private:
    friend class UnigramLattice;
    struct Place {  // position in the unit
      Score sum;
      uint32_t begin;  // start of the piece that ends here, or kUnreached
      TokenId id;
    };
    Score sum_ = 0;
    std::vector<Place> places_;
    std::vector<UnigramPiece> pieces_;
  };

  // Valid until the next call with `walk`. Error: a unit of 4 GiB or more.
  [[nodiscard]] std::span<const UnigramPiece> segment(std::string_view unit, Walk& walk) const;
  [[nodiscard]] const CharJoins& joins() const { return joins_; }

  // Calls use(end, id, score) for each piece that begins at unit[begin], shortest first; then for an unknown character,
  // if the character of `character_bytes` bytes is not a piece.
  template <class Use>
  void for_each_piece(std::string_view unit, uint32_t begin, uint32_t character_bytes, Use use) const {
    bool is_piece = false;
    uint32_t node = ByteTrie::kRoot;
    for (uint32_t end = begin; end < unit.size() && trie_.step(node, unit[end]);) {
      ++end;
      const int32_t piece = trie_.value(node);
      if (piece < 0) continue;
      use(end, ids_[static_cast<size_t>(piece)], scores_[static_cast<size_t>(piece)]);
      is_piece |= end - begin == character_bytes;
    }
    if (!is_piece) use(begin + character_bytes, UnigramPiece::kUnknown, unknown_score_);
  }
  [[nodiscard]] Score reset_beyond() const { return reset_beyond_; }

 private:
  static constexpr uint32_t kUnreached = UINT32_MAX;

  ByteTrie trie_;
  std::vector<Score> scores_;  // indexed by trie value
  std::vector<TokenId> ids_;
  Score unknown_score_, reset_beyond_;
  CharJoins joins_;
};

}  // namespace partita::internal
