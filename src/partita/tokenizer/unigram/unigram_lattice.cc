#include "partita/tokenizer/unigram/unigram_lattice.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {

template <class Score>
UnigramLattice<Score>::UnigramLattice(std::span<const ScoredPiece> pieces, Score unknown_score, Score reset_beyond)
    : unknown_score_(unknown_score), reset_beyond_(reset_beyond) {
  std::vector<ByteTrie::String> strings;
  for (const ScoredPiece& piece : pieces) {
    strings.push_back({piece.text, static_cast<int32_t>(ids_.size())});
    ids_.push_back(piece.id);
    scores_.push_back(piece.score);
    joins_.add_token(piece.text);
  }
  trie_ = ByteTrie(std::move(strings));
  joins_.finish();
}

template <class Score>
std::span<const UnigramPiece> UnigramLattice<Score>::segment(std::string_view unit, Walk& walk) const {
  if (unit.size() >= kUnreached) fail("a text of {} bytes without a place to cut it: 4 GiB at most", unit.size());
  const auto size = static_cast<uint32_t>(unit.size());
  auto& places = walk.places_;
  places.assign(size + 1, {0, kUnreached, UnigramPiece::kUnknown});
  places[0].sum = walk.sum_;
  uint32_t frontier = 0;  // last position reached
  const auto reach = [&](uint32_t place, Score sum, uint32_t begin, TokenId id) {
    frontier = std::max(frontier, place);
    if (places[place].begin == kUnreached || sum > places[place].sum) places[place] = {sum, begin, id};
  };
  for (uint32_t begin = 0; begin < size;) {
    Score sum = places[begin].sum;
    if (sum < -reset_beyond_ || sum > reset_beyond_) {
      for (uint32_t i = begin; i <= frontier; ++i) {
        if (i == begin || places[i].begin != kUnreached) places[i].sum -= sum;
      }
      sum = 0;
    }
    const auto character = static_cast<uint32_t>(char_bytes(unit, begin));
    for_each_piece(unit, begin, character,
                   [&](uint32_t end, TokenId id, Score score) { reach(end, score + sum, begin, id); });
    begin += character;
  }
  walk.sum_ = places[size].sum;
  walk.pieces_.clear();
  for (uint32_t end = size; end > 0; end = places[end].begin) {
    walk.pieces_.push_back({places[end].begin, end, places[end].id});
  }
  std::reverse(walk.pieces_.begin(), walk.pieces_.end());
  return walk.pieces_;
}

template class UnigramLattice<float>;   // SentencePiece
template class UnigramLattice<double>;  // Hugging Face's tokenizers

}  // namespace partita::internal
