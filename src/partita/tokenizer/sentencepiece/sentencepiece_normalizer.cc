#include "partita/tokenizer/sentencepiece/sentencepiece_normalizer.h"

#include <algorithm>
#include <cstring>

#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";
constexpr int kMostPrefixes = 64;

bool all_ascii(std::string_view text, size_t at) {  // the 8 bytes from `at`
  uint64_t word = 0;
  std::memcpy(&word, text.data() + at, 8);
  return (word & 0x8080808080808080) == 0;
}

// Fast path for U+3000 to U+CFFF, most of East Asia, which need fewer checks than other UTF-8.
bool is_common_three_bytes(std::string_view text, size_t at) {
  if (at + 3 > text.size()) return false;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  return byte(0) >= 0xE3 && byte(0) <= 0xEC && (byte(1) & 0xC0) == 0x80 && (byte(2) & 0xC0) == 0x80;
}

}  // namespace

size_t longest_prefix(const ByteTrie& set, std::string_view text) {
  uint32_t node = ByteTrie::kRoot;
  size_t longest = 0;
  int found = 0;
  for (size_t i = 0; i < text.size() && found < kMostPrefixes && set.step(node, text[i]); ++i) {
    if (set.value(node) < 0) continue;
    longest = i + 1;
    ++found;
  }
  return longest;
}

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceModel::NormalizerSpec& spec,
                                                 bool whitespace_as_suffix, const ByteTrie& user_defined,
                                                 SpaceForm form, std::string_view origin)
    : rules_(spec.precompiled_charsmap, origin),
      user_defined_(&user_defined),
      add_space_(spec.add_dummy_prefix),
      space_behind_(whitespace_as_suffix),
      remove_extra_(spec.remove_extra_whitespaces),
      space_(spec.escape_whitespaces && form == SpaceForm::literal ? kSpaceBlock : " "),
      blocks_to_spaces_(spec.escape_whitespaces && form == SpaceForm::compact),
      without_rules_(rules_.empty() && user_defined.empty() && blocks_to_spaces_ && !remove_extra_) {
  for (unsigned char c = 0; c < 128; ++c) {
    uint32_t node = ByteTrie::kRoot;
    bool plain = !user_defined.step(node, static_cast<char>(c));
    for (unsigned char next = 0; next < 128 && plain; ++next) {
      const char pair[2] = {static_cast<char>(c), static_cast<char>(next)};
      plain = !rules_.may_begin_with({pair, 2});
    }
    plain_[c] = plain;
  }
}

SentencePieceNormalizer::Step SentencePieceNormalizer::step(std::string_view text) const {
  if (const size_t bytes = longest_prefix(*user_defined_, text); bytes > 0) return {bytes, text.substr(0, bytes)};
  if (const auto rule = rules_.longest(text)) return {rule->bytes, rule->replacement};
  const CodePoint c = decode_utf8(text, 0);
  if (c.value == kInvalidByte) return {1, kReplacementCharacter};
  return {c.bytes, text.substr(0, c.bytes)};
}

size_t SentencePieceNormalizer::plain_prefix(std::string_view text) const {
  size_t at = 0;
  if (!without_rules_) {
    while (at + 1 < text.size() && static_cast<unsigned char>(text[at]) < 128 &&
           plain_[static_cast<size_t>(text[at])] && static_cast<unsigned char>(text[at + 1]) < 128 && text[at] != ' ') {
      ++at;
    }
    return at;
  }
  // Skips well-formed text other than U+2581.
  while (at < text.size()) {
    while (at + 8 <= text.size() && all_ascii(text, at)) at += 8;
    if (at == text.size()) break;
    if (is_common_three_bytes(text, at)) {
      at += 3;
      continue;
    }
    const CodePoint c = decode_utf8(text, at);
    if (c.value == kInvalidByte || c.value == 0x2581) break;
    at += c.bytes;
  }
  return at;
}

void SentencePieceNormalizer::append(std::string_view result, std::string& out) const {
  for (size_t at = 0; at < result.size();) {
    if (result[at] == ' ') {
      out += space_;
      ++at;
    } else if (blocks_to_spaces_ && result.substr(at).starts_with(kSpaceBlock)) {
      out += ' ';
      at += kSpaceBlock.size();
    } else {
      out += result[at++];
    }
  }
}

void SentencePieceNormalizer::normalize(std::string_view text, std::string& out) const {
  out.clear();
  if (remove_extra_) {
    while (!text.empty()) {
      const Step s = step(text);
      if (s.result != " ") break;
      text.remove_prefix(s.bytes);
    }
  }
  if (text.empty()) return;
  out.reserve(text.size() + text.size() / 8 + 8);
  if (add_space_ && !space_behind_) out += space_;
  bool after_space = remove_extra_;
  while (!text.empty()) {
    if (const size_t plain = plain_prefix(text); plain > 0) {
      out += text.substr(0, plain);
      text.remove_prefix(plain);
      after_space = false;
      continue;
    }
    if (text.size() > 1 && text[0] == ' ' && plain_[' '] && static_cast<unsigned char>(text[1]) < 128) {
      if (!after_space) out += space_;  // shortcut: the general code below would do the same
      after_space = remove_extra_;
      text.remove_prefix(1);
      continue;
    }
    Step s = step(text);
    text.remove_prefix(s.bytes);
    while (after_space && s.result.starts_with(' ')) s.result.remove_prefix(1);
    if (!s.result.empty()) {
      append(s.result, out);
      after_space = remove_extra_ && s.result.back() == ' ';
    }
  }
  if (remove_extra_) {
    while (out.ends_with(space_)) out.resize(out.size() - space_.size());
  }
  if (add_space_ && space_behind_) out += space_;
}

}  // namespace partita::internal
