// Character classes of text as bit masks, one bit per byte: used to find many pretokens at a time
// (pretoken_starts-inl.h).
//
//   ClassMasks masks[1];
//   class_masks(padded("It is 5 pm"), 10, masks);      // masks[0].number == 1 << 6
//
// ASCII is classified with SIMD, 64 bytes at a time; other code points one by one with the table of unicode.h. No
// #pragma once: the file is included once per instruction set.
#if defined(PARTITA_TOKENIZER_CLASS_MASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_TOKENIZER_CLASS_MASKS_INL_H_
#undef PARTITA_TOKENIZER_CLASS_MASKS_INL_H_
#else
#define PARTITA_TOKENIZER_CLASS_MASKS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "partita/unicode/unicode.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Masks of 64 bytes, bit i for byte i. All bytes of a code point have its class; bits past the end are 0.
struct ClassMasks {
  uint64_t letter, number, space, other;
  uint64_t blank;         // ' '
  uint64_t line_end;      // '\r', '\n'
  uint64_t apostrophe;    // '\''
  uint64_t continuation;  // all but the first byte of a code point
};

// Masks for ASCII; `continuation` marks the other bytes.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE ClassMasks ascii_masks(const char* text) {
  ClassMasks masks{};
  for (int i = 0; i < 64; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto put = [i](bool value, uint64_t& word) { word |= static_cast<uint64_t>(value) << i; };
    put((c | 0x20U) - 'a' < 26U, masks.letter);
    put(c - unsigned{'0'} < 10U, masks.number);
    put(c == ' ' || c - unsigned{'\t'} < 5U, masks.space);
    put(c == ' ', masks.blank);
    put(c == '\r' || c == '\n', masks.line_end);
    put(c == '\'', masks.apostrophe);
    put(c >= 0x80, masks.continuation);
  }
  return masks;
}
#else
HWY_INLINE ClassMasks ascii_masks(const char* text) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t lanes = hn::Lanes(d);
  uint8_t bits[7][8];
  for (size_t at = 0; at < 64; at += lanes) {
    const auto v = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + at);
    const auto blank = hn::Eq(v, hn::Set(d, ' '));
    const auto control_space = hn::Lt(hn::Sub(v, hn::Set(d, '\t')), hn::Set(d, 5));
    const auto line_end = hn::Or(hn::Eq(v, hn::Set(d, '\n')), hn::Eq(v, hn::Set(d, '\r')));
    const auto folded = hn::Or(v, hn::Set(d, 0x20));
    const auto put = [&](auto mask, int word) { hn::StoreMaskBits(d, mask, bits[word] + at / 8); };
    put(hn::Lt(hn::Sub(folded, hn::Set(d, 'a')), hn::Set(d, 26)), 0);
    put(hn::Lt(hn::Sub(v, hn::Set(d, '0')), hn::Set(d, 10)), 1);
    put(hn::Or(blank, control_space), 2);
    put(blank, 3);
    put(line_end, 4);
    put(hn::Eq(v, hn::Set(d, '\'')), 5);
    put(hn::Lt(hn::Set(d, 0x7F), v), 6);
  }
  uint64_t words[7];
  std::memcpy(words, bits, sizeof words);
  return {words[0], words[1], words[2], 0, words[3], words[4], words[5], words[6]};
}
#endif

// decode_utf8 with fast paths for common well-formed sequences.
HWY_INLINE CodePoint decode_wide(std::string_view text, size_t at) {
  if (text.size() - at >= 3) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const char32_t first = byte(0), second = byte(1), third = byte(2);
    if (first >= 0xC2 && first < 0xE0 && (second & 0xC0) == 0x80) return {(first & 0x1F) << 6 | (second & 0x3F), 2};
    if (first >= 0xE0 && first < 0xF0 && (second & 0xC0) == 0x80 && (third & 0xC0) == 0x80) {
      const char32_t value = (first & 0x0F) << 12 | (second & 0x3F) << 6 | (third & 0x3F);
      if (value >= 0x800 && (value < 0xD800 || value > 0xDFFF)) return {value, 3};
    }
  }
  return decode_utf8(text, at);
}

// Classifies the non-ASCII code points of a text, block by block.
class WideClasses {
 public:
  // The block at text[at]; `wide` marks its non-ASCII bytes.
  HWY_INLINE void add(std::string_view text, size_t at, uint64_t wide, ClassMasks& masks) {
    masks.continuation = 0;
    if (pending_ > 0) {  // rest of a code point that began in the previous block
      const uint64_t bytes = (uint64_t{1} << pending_) - 1;
      set(masks, bytes);
      masks.continuation = bytes;
      wide &= ~bytes;
      pending_ = 0;
    }
    while (wide != 0) {
      const int i = std::countr_zero(wide);
      const CodePoint c = decode_wide(text, at + static_cast<size_t>(i));
      class_ = table_[c.value];
      const uint64_t bytes = ((uint64_t{1} << c.bytes) - 1) << i;
      set(masks, bytes);
      masks.continuation |= bytes & ~(uint64_t{1} << i);
      wide &= ~bytes;
      if (const int end = i + static_cast<int>(c.bytes); end > 64) pending_ = end - 64;
    }
  }

 private:
  HWY_INLINE void set(ClassMasks& masks, uint64_t bytes) const {
    masks.letter |= class_ == CharClass::letter ? bytes : 0;
    masks.number |= class_ == CharClass::number ? bytes : 0;
    masks.space |= class_ == CharClass::space ? bytes : 0;
  }

  const internal::ClassTable& table_ = internal::class_table();
  CharClass class_ = CharClass::other;
  int pending_ = 0;  // bytes of the last code point that are in the next block
};

// Masks of the first `bytes` of a text. In a partial last block, bits past the end are 0. Reads whole blocks, whose
// memory must exist; what is past the text does not affect the result.
HWY_INLINE void class_masks(std::string_view text, size_t bytes, ClassMasks* masks) {
  WideClasses wide;
  for (size_t block = 0, at = 0; at < bytes; ++block, at += 64) {
    ClassMasks m = ascii_masks(text.data() + at);
    uint64_t inside = ~uint64_t{0};
    if (bytes - at < 64) {
      inside = (uint64_t{1} << (bytes - at)) - 1;
      for (uint64_t* word : {&m.letter, &m.number, &m.space, &m.blank, &m.line_end, &m.apostrophe, &m.continuation}) {
        *word &= inside;
      }
    }
    if (m.continuation != 0) wide.add(text, at, m.continuation, m);
    m.other = inside & ~(m.letter | m.number | m.space);
    masks[block] = m;
  }
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_TOKENIZER_CLASS_MASKS_INL_H_
