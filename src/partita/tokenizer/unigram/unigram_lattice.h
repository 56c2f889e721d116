// The best segmentation of a text into scored pieces, found from left to right: for each place the best sum of scores
// with which it is reached, and by which piece; of equals the one that begins first.
//
//   UnigramLattice<float> lattice(pieces, unknown_score);
//   UnigramLattice<float>::Walk walk;                 // a text's state and buffers
//   walk.begin_text();
//   for (each unit of the text)                       // lattice.joins(): no piece crosses units
//     for (const UnigramPiece& p : lattice.segment(unit, walk)) ...
//
// Sums are carried from unit to unit in `Score`, so that they are rounded as over the whole text: which of two nearly
// equal segmentations wins depends on it.
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
  TokenId id;           // kUnknown: a character that is no piece
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
  // `reset_beyond`: where a sum's magnitude exceeds it, sums begin again at zero (SentencePiece since 0.2.2, so that
  // floats stay exact enough).
  UnigramLattice(std::span<const ScoredPiece> pieces, Score unknown_score, Score reset_beyond);

  class Walk {
   public:
    void begin_text() { sum_ = 0; }
    // The best sum up to here. It may be carried over a unit that was not segmented by this walk.
    [[nodiscard]] Score sum() const { return sum_; }
    void set_sum(Score sum) { sum_ = sum; }

   private:
    friend class UnigramLattice;
    struct Place {  // in the unit
      Score sum;
      uint32_t begin;  // of the piece that ends here; kUnreached
      TokenId id;
    };
    Score sum_ = 0;
    std::vector<Place> places_;
    std::vector<UnigramPiece> pieces_;
  };

  // Valid until the next call with `walk`. Error: a unit of 4 GiB.
  [[nodiscard]] std::span<const UnigramPiece> segment(std::string_view unit, Walk& walk) const;
  [[nodiscard]] const CharJoins& joins() const { return joins_; }

  // use(end, id, score) for each piece that begins at unit[begin], the shortest first; at last for an unknown
  // character, if the character, of so many bytes, is no piece.
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
  std::vector<Score> scores_;  // by the trie's values
  std::vector<TokenId> ids_;
  Score unknown_score_, reset_beyond_;
  CharJoins joins_;
};

}  // namespace partita::internal
