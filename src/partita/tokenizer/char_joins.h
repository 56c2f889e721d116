// Where a text may be cut without changing its tokens: between two characters that stand beside each other in no token
// made of several characters.
//
//   CharJoins joins;
//   joins.add(a, b);                                  // for all neighbours in tokens
//   joins.finish();
//   for (size_t begin = 0; begin < text.size(); begin = end) end = joins.unit_end(text, begin);
//
// ASCII neighbours are answered exactly, others perhaps with "they may join" where they do not, which only makes units
// longer. With the tokens of Llama 2, units are words with the space in front, or parts of them.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace partita {

// Bytes of the character at text[at], by its first byte alone, and not beyond the text: ill-formed UTF-8 falls apart
// in some way.
[[nodiscard]] inline size_t char_bytes(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0xC0) return 1;
  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return std::min(bytes, text.size() - at);
}

// The bytes of a character as one number, below 128 for ASCII.
using CharKey = uint32_t;
[[nodiscard]] inline CharKey char_key(std::string_view text, size_t at, size_t bytes) {
  CharKey key = 0;
  std::memcpy(&key, text.data() + at, bytes);
  return key;
}

class CharJoins {
 public:
  // All neighbours inside `token`.
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
  // After the last add().
  void finish() {
    std::sort(others_.begin(), others_.end());
    others_.erase(std::unique(others_.begin(), others_.end()), others_.end());
    int log2 = 10;
    while ((size_t{1} << log2) < 32 * others_.size() && log2 < 24) ++log2;
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

  // The end of the unit that begins at `begin` < text.size().
  [[nodiscard]] size_t unit_end(std::string_view text, size_t begin) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    for (size_t at = begin;;) {
      if (bytes[at] < 128) {  // a run of ASCII
        for (const uint8_t* row = ascii_[bytes[at]].data();; row = ascii_[bytes[at]].data()) {
          if (++at == text.size()) return at;
          if (bytes[at] >= 128) break;
          if (row[bytes[at]] == 0) return at;
        }
        if (!may_join(bytes[at - 1], char_key(text, at, char_bytes(text, at)))) return at;
      }
      const size_t length = char_bytes(text, at);
      const CharKey left = char_key(text, at, length);
      at += length;
      if (at == text.size() || !may_join(left, char_key(text, at, char_bytes(text, at)))) return at;
    }
  }

 private:
  static uint64_t hash_of(CharKey left, CharKey right) {
    const uint64_t key = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15;
    return (key ^ (key >> 29)) * 0xBF58476D1CE4E5B9;
  }

  std::array<std::array<uint8_t, 128>, 128> ascii_{};  // [left][right]
  std::vector<uint64_t> others_;                       // until finish()
  std::vector<uint64_t> bits_ = std::vector<uint64_t>(1, 0);
  int shift_ = 58;
};

}  // namespace partita
