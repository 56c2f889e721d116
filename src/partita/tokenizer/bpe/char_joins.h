// Finds where a text can be split without changing its tokens: between two characters that are not adjacent in any
// multi-character token.
//
//   CharJoins joins;
//   joins.add(a, b);                                  // for all adjacent characters in tokens
//   joins.finish();
//   joins.for_each_unit(text, [&](size_t begin, size_t end) { use(text.substr(begin, end - begin)); });
//
// Exact for ASCII; for other characters it may report a join where there is none, which only makes units longer. With
// Llama 2's tokens, units are words with their leading space, or parts of words.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace partita::internal {

// Bytes of the character at text[at], from its lead byte alone and limited to the text. Ill-formed UTF-8 is split in an
// unspecified way.
[[nodiscard]] inline size_t char_bytes(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0xC0) return 1;
  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return std::min(bytes, text.size() - at);
}

// The bytes of a character packed into one number, below 128 for ASCII.
using CharKey = uint32_t;
[[nodiscard]] inline CharKey char_key(std::string_view text, size_t at, size_t bytes) {
  CharKey key = 0;
  if (at + sizeof(key) <= text.size()) {
    std::memcpy(&key, text.data() + at, sizeof(key));
    return key & (~CharKey{0} >> (8 * (sizeof(key) - bytes)));
  }
  std::memcpy(&key, text.data() + at, bytes);
  return key;
}

class CharJoins {
 public:
  // Adds all adjacent characters in `token`.
  void add_token(std::string_view token) {
    if (token.empty()) return;
    size_t at = char_bytes(token, 0);
    CharKey left = char_key(token, 0, at);
    while (at < token.size()) {
      const size_t bytes = char_bytes(token, at);
      const CharKey right = char_key(token, at, bytes);
      add(left, right);
      left = right;
      at += bytes;
    }
  }
  void add(CharKey left, CharKey right) {
    if (left < 128 && right < 128) {
      ascii_[left][right] = 1;
    } else {
      others_.push_back(hash_of(left, right));
    }
  }
  // Call after the last add().
  void finish() {
    std::sort(others_.begin(), others_.end());
    others_.erase(std::unique(others_.begin(), others_.end()), others_.end());
    int log2 = 10;
    while ((size_t{1} << log2) < 16 * others_.size() && log2 < 22) ++log2;
    shift_ = 64 - log2;
    bits_.assign((size_t{1} << log2) / 64, 0);
    for (const uint64_t hash : others_) bits_[hash >> shift_ >> 6] |= uint64_t{1} << ((hash >> shift_) & 63);
    others_ = {};
  }

  [[nodiscard]] bool may_join(CharKey left, CharKey right) const {
    if (left < 128 && right < 128) return ascii_[left][right] != 0;
    const uint64_t bit = hash_of(left, right) >> shift_;
    return ((bits_[bit >> 6] >> (bit & 63)) & 1) != 0;
  }

  // Finds unit ends, in ascending order, in about kScan bytes from the character at `at`, or up to the end of the text,
  // which ends the last unit. Advances `at` past the scanned bytes. Returns the number of ends.
  static constexpr size_t kScan = 64;
  using Ends = std::array<size_t, kScan + 1>;
  size_t find_ends(std::string_view text, size_t& at, Ends& ends) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    if (at == text.size()) return 0;
    size_t count = 0, length = char_bytes(text, at);
    CharKey left = char_key(text, at, length);
    // Branch-free: whether a character ends a unit is unpredictable.
    for (const size_t until = at + kScan; at < until;) {
      const size_t next = at + length;
      if (next == text.size()) {
        ends[count++] = next;
        at = next;
        break;
      }
      CharKey right = bytes[next];
      length = 1;
      bool joins = false;
      if ((left | right) < 128) {
        joins = ascii_[left][right] != 0;
      } else {
        length = char_bytes(text, next);
        right = char_key(text, next, length);
        joins = may_join(left, right);
      }
      ends[count] = next;
      count += joins ? 0 : 1;
      left = right;
      at = next;
    }
    return count;
  }

  // Calls use(begin, end) for each unit.
  template <class Use>
  void for_each_unit(std::string_view text, Use use) const {
    Ends ends;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t count = find_ends(text, at, ends);
      for (size_t u = 0; u < count; begin = ends[u++]) use(begin, ends[u]);
    }
  }

 private:
  static uint64_t hash_of(CharKey left, CharKey right) {
    const uint64_t key = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15;
    return (key ^ (key >> 29)) * 0xBF58476D1CE4E5B9;
  }

  std::array<std::array<uint8_t, 128>, 128> ascii_{};  // [left][right]
  std::vector<uint64_t> others_;                       // unsorted until finish()
  std::vector<uint64_t> bits_ = std::vector<uint64_t>(1, 0);
  int shift_ = 58;
};

}  // namespace partita::internal
