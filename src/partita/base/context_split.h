// The positions of a sequence that each rank of a context-parallel group computes. Pure.
//
//   const ContextSplit split{.rank = 1, .ranks = 2};
//   split.position(0, 6);  // 3: of 12 positions, this rank has pieces 1 and 2 of four, positions 3 to 5 and 6 to 8
//
// A sequence is cut into 2 x ranks equal pieces, of which rank i has pieces i and 2 x ranks - 1 - i: in causal
// attention every rank then has the same number of queries and keys to multiply (the "zigzag" order of
// ring-flash-attention and Megatron-LM).
#pragma once
#include <array>
#include <cstdint>

namespace partita {

// This rank's place in its context-parallel group. `length`: tokens of a sequence on this rank, an even number where
// there are several ranks.
struct ContextSplit {
  int rank = 0, ranks = 1;

  [[nodiscard]] constexpr bool cuts() const { return ranks > 1; }
  // Tokens of consecutive positions: of a piece, or of the whole sequence.
  [[nodiscard]] constexpr int64_t run(int64_t length) const { return cuts() ? length / 2 : length; }
  // The pieces of `of_rank`, in the order in which it holds them.
  [[nodiscard]] constexpr std::array<int, 2> pieces(int of_rank) const { return {of_rank, 2 * ranks - 1 - of_rank}; }
  // Position less index of the tokens in run 0 or 1.
  [[nodiscard]] constexpr int64_t shift(int of_run, int64_t length) const {
    if (!cuts()) return 0;
    const auto [first, second] = pieces(rank);
    return (of_run == 0 ? first : second - 1) * run(length);
  }
  // Position in the sequence of this rank's token number `token`.
  [[nodiscard]] constexpr int64_t position(int64_t token, int64_t length) const {
    return token + shift(token < run(length) ? 0 : 1, length);
  }
  friend bool operator==(const ContextSplit&, const ContextSplit&) = default;
};

}  // namespace partita
