#include "partita/tokenizer/split/pretoken_scanner.h"

#include <algorithm>
#include <cstring>

#include "partita/tokenizer/split/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/tokenizer/split/pretoken_scanner.cc"
#include <hwy/foreach_target.h>

#include "partita/tokenizer/split/class_masks-inl.h"
#include "partita/tokenizer/split/pretoken_starts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// Length of the part of a window whose pretoken starts are final, if the text continues after the window: up to its
// last run of one class. Later text may change how that run is split and whether it starts a pretoken, except for
// numbers, which are split from the left.
size_t settled_bytes(const ClassMasks* masks, size_t bytes) {
  const auto class_bit = [masks](size_t at) {
    const ClassMasks& m = masks[at / 64];
    return bit(m.letter, at) ? 0 : bit(m.number, at) ? 1 : bit(m.space, at) ? 2 : 3;
  };
  const int last = class_bit(bytes - 1);
  if (last == 1) return bytes;
  while (bytes > 0 && class_bit(bytes - 1) == last) --bytes;
  return bytes;
}

// Writes the indices below `limit` whose bits are set; returns their number. May write up to 8 more.
size_t places_of(const uint64_t* words, size_t limit, uint32_t* out) {
  uint32_t* const begin = out;
  for (size_t block = 0; 64 * block < limit; ++block) {
    uint64_t word = words[block];
    if (limit - 64 * block < 64) word &= (uint64_t{1} << (limit - 64 * block)) - 1;
    const auto base = static_cast<uint32_t>(64 * block);
    const int count = std::popcount(word);
    for (int done = 0; done < count; done += 8) {  // eight at a time instead of one branch per bit
      for (int i = 0; i < 8; ++i) {
        out[done + i] = base + static_cast<uint32_t>(std::countr_zero(word));
        word &= word - 1;
      }
    }
    out += count;
  }
  return static_cast<size_t>(out - begin);
}

// Bounds of the pretokens in the first `bytes` of a text; returns their number. Reads whole blocks of 64 bytes. If the
// text continues, the last bound is the end of the last pretoken that is certain.
size_t window_bounds(SplitPattern pattern, std::string_view text, size_t bytes, uint32_t* bounds) {
  constexpr size_t kMostBlocks = PretokenScanner::kWindow / 64;
  ClassMasks masks[kMostBlocks + 1];
  uint64_t starts[kMostBlocks + 1];
  const size_t blocks = (bytes + 63) / 64;
  const bool to_end = bytes == text.size();
  class_masks(text, bytes, masks);
  masks[blocks] = {};
  const MaskWindow w{text, bytes, blocks, masks, starts};
  switch (pattern) {
    case SplitPattern::cl100k:
      llama3_starts(w, {false, true}, to_end);
      break;
    case SplitPattern::llama3:
      llama3_starts(w, {false, false}, to_end);
      break;
    case SplitPattern::qwen2:
      llama3_starts(w, {true, false}, to_end);
      break;
    default:
      gpt2_starts(w);
  }
  size_t count = places_of(starts, to_end ? bytes : settled_bytes(masks, bytes), bounds);
  if (to_end) bounds[count++] = static_cast<uint32_t>(bytes);
  return count;
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(window_bounds);

bool has_masks(SplitPattern pattern) {
  return pattern == SplitPattern::gpt2 || pattern == SplitPattern::cl100k || pattern == SplitPattern::llama3 ||
         pattern == SplitPattern::qwen2;
}

}  // namespace

PretokenScanner::PretokenScanner(SplitPattern pattern)
    : pattern_(pattern), tail_(kWindow + kRoom), bounds_(kWindow + 16) {}

// Bounds of the pretokens that begin in text.substr(begin, limit - begin); returns their number.
size_t PretokenScanner::scan_one_by_one(std::string_view text, size_t begin, size_t limit) {
  size_t count = 0;
  bounds_[count++] = 0;
  for (size_t at = begin; at < limit;) {
    const size_t end = pretoken_end(pattern_, text, at);
    if (end - begin > kWindow) break;
    bounds_[count++] = static_cast<uint32_t>(end - begin);
    at = end;
  }
  return count;
}

PretokenScanner::Window PretokenScanner::scan(std::string_view text, size_t begin) {
  const size_t left = text.size() - begin, bytes = std::min(left, kWindow);
  const char* base = text.data() + begin;
  if (left < kWindow + kRoom) {
    std::memcpy(tail_.data(), base, left);
    base = tail_.data();
  }
  // Makes a code point at the end of the window visible as a whole.
  const std::string_view seen(base, std::min(left, kWindow + kRoom));
  const size_t count = has_masks(pattern_) ? HWY_DYNAMIC_DISPATCH(window_bounds)(pattern_, seen, bytes, bounds_.data())
                                           : scan_one_by_one(text, begin, begin + bytes);
  if (count < 2) return {text.data() + begin, {}, pretoken_end(pattern_, text, begin)};
  return {base, std::span(bounds_).first(count), begin + bounds_[count - 1]};
}

}  // namespace partita::internal
#endif  // HWY_ONCE
