// Computes where pretokens begin, one bit per byte, with shifts and additions of class masks.
//
// The window begins at a pretoken. Rules of a regular expression become expressions such as
//   letters that begin a run:  letter & ~before(letter)
//   blanks that a run takes:   blank & after(run starts)
// where the masks of adjacent blocks supply the bits that cross a boundary. Rare cases loop over set bits. No #pragma
// once: the file is included once per instruction set.
#if defined(PARTITA_TOKENIZER_PRETOKEN_STARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_TOKENIZER_PRETOKEN_STARTS_INL_H_
#undef PARTITA_TOKENIZER_PRETOKEN_STARTS_INL_H_
#else
#define PARTITA_TOKENIZER_PRETOKEN_STARTS_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <string_view>

#include "partita/tokenizer/split/class_masks-inl.h"
#include "partita/tokenizer/split/contractions.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// The first `bytes` of a text with their masks, followed by an empty block; `starts` has the same size.
struct MaskWindow {
  std::string_view text;
  size_t bytes, blocks;
  const ClassMasks* masks;
  uint64_t* starts;
};

// Bit i: whether byte i - 1 is in `word`; `previous` is the same mask of the preceding block.
HWY_INLINE uint64_t before(uint64_t word, uint64_t previous) { return word << 1 | previous >> 63; }
// Bit i: whether byte i + count is in `word`.
HWY_INLINE uint64_t after(uint64_t word, uint64_t next, int count = 1) { return word >> count | next << (64 - count); }

HWY_INLINE bool bit(uint64_t word, size_t at) { return (word >> (at % 64) & 1) != 0; }
HWY_INLINE void set_bit(uint64_t* words, size_t at) { words[at / 64] |= uint64_t{1} << (at % 64); }
HWY_INLINE void clear_bit(uint64_t* words, size_t at) { words[at / 64] &= ~(uint64_t{1} << (at % 64)); }

template <class F>
HWY_INLINE void for_each_bit(uint64_t word, size_t block, F&& f) {
  for (; word != 0; word &= word - 1) f(64 * block + static_cast<size_t>(std::countr_zero(word)));
}

// First byte at or after `at` that is not in the class selected by get(masks), or the end of the window.
template <class F>
HWY_INLINE size_t run_end(const MaskWindow& w, size_t at, F&& get) {
  for (size_t block = at / 64; block < w.blocks; ++block, at = 64 * block) {
    const uint64_t rest = ~get(w.masks[block]) >> (at % 64);
    if (rest != 0) return at + static_cast<size_t>(std::countr_zero(rest));
  }
  return at;
}

// First byte of the code point that contains `at`.
HWY_INLINE size_t first_byte(const MaskWindow& w, size_t at) {
  while (bit(w.masks[at / 64].continuation, at)) --at;
  return at;
}

// First bytes of runs of each class.
struct RunStarts {
  uint64_t letter, number, space, other;
};
HWY_INLINE RunStarts run_starts(const ClassMasks& m, const ClassMasks& previous) {
  return {m.letter & ~before(m.letter, previous.letter), m.number & ~before(m.number, previous.number),
          m.space & ~before(m.space, previous.space), m.other & ~before(m.other, previous.other)};
}

// Marks the last code point of each run of white space that is followed by something, given the runs' last bytes.
HWY_INLINE void start_last_spaces(const MaskWindow& w, uint64_t last, size_t block) {
  const uint64_t wide = last & w.masks[block].continuation;
  w.starts[block] |= last & ~wide;
  for_each_bit(wide, block, [&](size_t at) { set_bit(w.starts, first_byte(w, at)); });
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   text          I t ' s _ _ 5 _ p m    _ is a blank, bit 0 on the left
//   run starts    1 . 1 1 1 . 1 1 1 .
//   after_blank   . . . . . 1 1 . 1 .
//   starts        1 . 1 1 1 . . 1 . .    starts of space runs, and of other runs that do not follow a blank
//   last spaces   1 . 1 1 1 1 . 1 . .    plus the last space of a run that is followed by something
//   's            1 . 1 . 1 1 . 1 . .    minus the start of the run "s": It|'s| | 5| pm
HWY_INLINE void gpt2_starts(const MaskWindow& w) {
  ClassMasks previous{};
  uint64_t apostrophes = 0;
  for (size_t block = 0; block < w.blocks; ++block) {
    const ClassMasks &m = w.masks[block], &next = w.masks[block + 1];
    const RunStarts runs = run_starts(m, previous);
    const uint64_t after_blank = before(m.blank, previous.blank);
    const auto visible = [](const ClassMasks& x) { return x.letter | x.number | x.other; };
    w.starts[block] = runs.space | ((runs.letter | runs.number | runs.other) & ~after_blank);
    start_last_spaces(w, m.space & after(visible(m), visible(next)), block);
    apostrophes |= m.apostrophe;
    previous = m;
  }
  w.starts[w.blocks] = 0;
  if (apostrophes == 0) return;
  previous = {};
  for (size_t block = 0; block < w.blocks; ++block) {
    const ClassMasks &m = w.masks[block], &next = w.masks[block + 1];
    const uint64_t candidates =
        m.apostrophe & ~before(m.other | m.blank, previous.other | previous.blank) & after(m.letter, next.letter);
    for_each_bit(candidates, block, [&](size_t at) {
      const size_t bytes = contraction_bytes(w.text, at);
      if (bytes == 0) return;
      clear_bit(w.starts, at + 1);
      if (at + bytes < w.bytes) set_bit(w.starts, at + bytes);
    });
    previous = m;
  }
}

struct Llama3Kind {
  bool single_digits;          // \p{N}, not \p{N}{1,3}
  bool space_to_end_together;  // \s++$ has priority
};

// \p{N}{1,3}: splits the run of numbers that begins at `at`.
HWY_INLINE void cut_numbers(const MaskWindow& w, size_t at) {
  const size_t end = run_end(w, at, [](const ClassMasks& m) { return m.number; });
  for (int count = 0; at < end; ++count) {
    if (count == 3) {
      set_bit(w.starts, at);
      count = 0;
    }
    do ++at;
    while (at < end && bit(w.masks[at / 64].continuation, at));
  }
}

// \s++$: joins white space at the end of a text, except for line ends that belong to the preceding pretoken.
HWY_INLINE void join_spaces_at_end(const MaskWindow& w) {
  size_t at = w.bytes;
  while (at > 0 && bit(w.masks[(at - 1) / 64].space, at - 1)) --at;
  if (at > 0 && bit(w.masks[(at - 1) / 64].other, at - 1)) {
    while (at < w.bytes && bit(w.masks[at / 64].line_end, at)) ++at;
  }
  while (++at < w.bytes) clear_bit(w.starts, at);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
HWY_INLINE void llama3_starts(const MaskWindow& w, const Llama3Kind& kind, bool to_end) {
  ClassMasks previous{};
  uint64_t previous_free = 0, previous_lone = 0;
  uint64_t absorbing = 0, passing = 0;  // carry bits of the additions: 0 or 1
  for (size_t block = 0; block < w.blocks; ++block) w.starts[block] = 0;
  w.starts[w.blocks] = 0;
  for (size_t block = 0; block < w.blocks; ++block) {
    const ClassMasks &m = w.masks[block], &next = w.masks[block + 1];
    const RunStarts runs = run_starts(m, previous);
    const uint64_t after_blank = before(m.blank, previous.blank);

    // [\r\n]* after class other: the carry of an addition runs through adjacent line ends.
    //   text                   !  \n \n x  \n    bit 0 on the left
    //   line_end               .  1  1  .  1
    //   first_ends             .  1  .  .  .     directly after class other
    //   ends_sum               .  .  .  1  1     line_end + first_ends clears the run
    //   line_end & ~ends_sum   .  1  1  .  .     belongs to "!", so not free
    const uint64_t first_ends = m.line_end & (before(m.other, previous.other) | absorbing);
    const uint64_t ends_sum = m.line_end + first_ends;
    absorbing = ends_sum < m.line_end ? 1 : 0;
    const uint64_t free = m.space & ~(m.line_end & ~ends_sum);

    // A lone code point of class other joins the letters after it, unless it takes a preceding blank.
    const uint64_t lone = runs.other & ~after_blank;
    const uint64_t behind = before(lone, previous_lone) | passing;
    const uint64_t passed = m.continuation + (behind & m.continuation);
    passing = passed < m.continuation ? 1 : 0;
    const uint64_t behind_lone = (behind | passed) & ~m.continuation;
    const uint64_t inline_space = m.space & ~m.line_end;
    const uint64_t after_inline_space = before(inline_space, previous.space & ~previous.line_end);

    w.starts[block] |=
        (free & ~before(free, previous_free)) | lone | (runs.letter & ~after_inline_space & ~behind_lone);
    const auto visible = [](const ClassMasks& x) { return x.letter | x.number | x.other; };
    start_last_spaces(w, free & ~m.line_end & after(visible(m), visible(next)), block);

    // White space after the last line end of a run.
    const uint64_t indents = inline_space & before(m.line_end & free, previous.line_end & previous_free);
    for_each_bit(indents, block, [&](size_t at) {
      const size_t end = run_end(w, at, [](const ClassMasks& x) { return x.space & ~x.line_end; });
      if (end >= w.bytes || !bit(w.masks[end / 64].line_end, end)) set_bit(w.starts, at);
    });

    if (kind.single_digits) {
      w.starts[block] |= m.number & ~m.continuation;
    } else {
      w.starts[block] |= runs.number;
      const uint64_t longer = runs.number & after(m.number, next.number, 1) & after(m.number, next.number, 2) &
                              after(m.number, next.number, 3);
      for_each_bit(longer, block, [&](size_t at) { cut_numbers(w, at); });
    }

    const uint64_t candidates = m.apostrophe & lone & after(m.letter, next.letter);
    for_each_bit(candidates, block, [&](size_t at) {
      const size_t bytes = contraction_bytes_any_case(w.text, at);
      if (bytes > 0 && at + bytes < w.bytes) set_bit(w.starts, at + bytes);
    });
    previous = m;
    previous_free = free;
    previous_lone = lone;
  }
  if (kind.space_to_end_together && to_end) join_spaces_at_end(w);
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_TOKENIZER_PRETOKEN_STARTS_INL_H_
