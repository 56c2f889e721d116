#include "partita/unicode/normal_forms.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_map>
#include <vector>

#include "partita/unicode/normal_form_tables.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

using internal::normal_form_tables;

// Hangul (Unicode standard, section 3.12) is computed: syllable = leading + vowel (+ trailing).
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;
constexpr char32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

class Tables {
 public:
  Tables() : combining_(0x110000), moves_(0x110000) {
    for (const auto& range : normal_form_tables.combining) {
      std::fill(combining_.begin() + range.first, combining_.begin() + range.last + 1, range.combining_class);
    }
    read(normal_form_tables.canonical, canonical_);
    read(normal_form_tables.compatible, compatible_);
    for (const auto& [first, second, composed] : normal_form_tables.compositions) {
      compositions_.emplace(key(first, second), composed);
      seconds_.push_back(second);
    }
    for (char32_t c = kVowel; c < kVowel + kVowelCount; ++c) seconds_.push_back(c);
    for (char32_t c = kTrailing + 1; c < kTrailing + kTrailingCount; ++c) seconds_.push_back(c);
    std::sort(seconds_.begin(), seconds_.end());
    for (char32_t c = 0; c < 0x110000; ++c) {
      for (int form = 0; form < 4; ++form) {
        if (moves(static_cast<NormalForm>(form), c)) moves_[c] |= static_cast<uint8_t>(1 << form);
      }
    }
  }

  [[nodiscard]] uint8_t combining_class(char32_t c) const { return combining_[c]; }

  // False: the character never changes in this form, whatever follows, and never affects what precedes it.
  [[nodiscard]] bool may_change(NormalForm form, char32_t c) const {
    return c != kInvalidByte && (moves_[c] >> static_cast<int>(form) & 1) != 0;
  }

  void decompose(bool compatible, char32_t c, std::u32string& out) const {
    if (c >= kSyllables && c < kSyllables + kSyllableCount) {
      const char32_t index = c - kSyllables, trailing = index % kTrailingCount;
      out.push_back(kLeading + index / (kVowelCount * kTrailingCount));
      out.push_back(kVowel + index / kTrailingCount % kVowelCount);
      if (trailing != 0) out.push_back(kTrailing + trailing);
      return;
    }
    if (compatible) {
      if (const auto found = compatible_.find(c); found != compatible_.end()) {
        return void(out.append(found->second.begin(), found->second.end()));
      }
    }
    const auto found = canonical_.find(c);
    if (found == canonical_.end()) return out.push_back(c);
    out.append(found->second.begin(), found->second.end());
  }

  // Returns 0 if the two do not compose.
  [[nodiscard]] char32_t compose(char32_t first, char32_t second) const {
    if (first >= kLeading && first < kLeading + kLeadingCount && second >= kVowel && second < kVowel + kVowelCount) {
      return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowel)) * kTrailingCount;
    }
    if (first >= kSyllables && first < kSyllables + kSyllableCount && (first - kSyllables) % kTrailingCount == 0 &&
        second > kTrailing && second < kTrailing + kTrailingCount) {
      return first + (second - kTrailing);
    }
    const auto found = compositions_.find(key(first, second));
    return found == compositions_.end() ? 0 : found->second;
  }

  // Composes ordered decompositions in place.
  void compose_all(std::u32string& text) const {
    size_t starter = text.size(), end = 0;  // text[starter] may absorb later characters; text[0 .. end) is done
    uint8_t last_class = 0;
    for (const char32_t c : text) {
      const uint8_t found = combining_class(c);
      if (starter < end) {
        // Blocked if a character in between does not have a lower class.
        const bool adjacent = end == starter + 1;
        if (adjacent || (last_class != 0 && last_class < found)) {
          if (const char32_t composed = compose(text[starter], c); composed != 0) {
            text[starter] = composed;
            continue;
          }
        }
      }
      if (found == 0) starter = end;
      last_class = found;
      text[end++] = c;
    }
    text.resize(end);
  }

 private:
  using Decompositions = std::unordered_map<char32_t, std::span<const uint32_t>>;
  static uint64_t key(char32_t first, char32_t second) { return uint64_t{first} << 32 | second; }

  static void read(std::span<const uint32_t> flat, Decompositions& out) {
    for (size_t i = 0; i < flat.size(); i += 2 + flat[i + 1]) out.emplace(flat[i], flat.subspan(i + 2, flat[i + 1]));
  }

  [[nodiscard]] bool moves(NormalForm form, char32_t c) const {
    const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
    const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
    std::u32string text;
    decompose(compatible, c, text);
    if (combining_class(text.front()) != 0 || combining_class(c) != 0) return true;
    if (!composes) return text.size() > 1 || text.front() != c;
    if (std::binary_search(seconds_.begin(), seconds_.end(), text.front())) return true;
    compose_all(text);
    return text.size() > 1 || text.front() != c;
  }

  std::vector<uint8_t> combining_, moves_;  // moves_: one bit per form
  Decompositions canonical_, compatible_;
  std::unordered_map<uint64_t, char32_t> compositions_;
  std::vector<char32_t> seconds_;  // characters that compose with a preceding one
};

const Tables& tables() {
  static const Tables made;
  return made;
}

// End of the ASCII text at `at`, scanning eight bytes at a time.
size_t ascii_end(std::string_view text, size_t at) {
  for (uint64_t eight; text.size() - at >= sizeof eight; at += sizeof eight) {
    std::memcpy(&eight, text.data() + at, sizeof eight);
    if (const uint64_t high = eight & 0x8080808080808080; high != 0) {
      return at + static_cast<size_t>(std::countr_zero(high)) / 8;  // little-endian, like all supported processors
    }
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

bool contains(std::span<const internal::CodePointRange> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const auto& range) { return value < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

}  // namespace

std::string normalized(NormalForm form, std::string_view text) {
  std::string buffer;
  return std::string(normalized(form, text, buffer));
}

std::string_view normalized(NormalForm form, std::string_view text, std::string& out) {
  const Tables& all = tables();
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  out.clear();
  std::u32string part;
  size_t copied = 0, before = text.size();  // offset of the preceding character, if it may compose with the next ones
  for (size_t at = 0; at < text.size();) {
    if (const size_t end = ascii_end(text, at);
        end > at) {  // ASCII never changes or composes with a preceding character
      before = end - 1;
      at = end;
      continue;
    }
    const CodePoint c = decode_utf8(text, at);
    if (!all.may_change(form, c.value)) {
      before = c.value == kInvalidByte ? text.size() : at;
      at += c.bytes;
      continue;
    }
    // Normalize from the preceding unchanging character to the next one, independently of the rest.
    const size_t begin = before < at ? before : at;
    out.append(text, copied, begin - copied);
    part.clear();
    for (at = begin; at < text.size();) {
      const CodePoint next = decode_utf8(text, at);
      if (at > begin && !all.may_change(form, next.value)) break;
      all.decompose(compatible, next.value, part);
      at += next.bytes;
    }
    for (size_t i = 0; i < part.size();) {
      size_t end = i;
      while (end < part.size() && all.combining_class(part[end]) != 0) ++end;
      std::stable_sort(part.begin() + static_cast<ptrdiff_t>(i), part.begin() + static_cast<ptrdiff_t>(end),
                       [&](char32_t a, char32_t b) { return all.combining_class(a) < all.combining_class(b); });
      i = end + 1;
    }
    if (composes) all.compose_all(part);
    for (const char32_t value : part) append_utf8(out, value);
    copied = at;
    before = text.size();
  }
  if (copied == 0) return text;
  return out.append(text, copied);
}

bool is_mark(char32_t c) { return contains(normal_form_tables.marks, c); }

bool is_punctuation(char32_t c) {
  const bool ascii_sign =
      (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  return ascii_sign || contains(normal_form_tables.punctuation, c);
}

}  // namespace partita::internal
