#include "partita/tokenizer/added_tokens.h"

#include <algorithm>

#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

unsigned char byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

// The character that ends at `end` > 0.
CodePoint decode_before(std::string_view text, size_t end) {
  for (uint32_t bytes = 1; bytes <= 4 && bytes <= end; ++bytes) {
    const CodePoint c = decode_utf8(text, end - bytes);
    if (c.value != kInvalidByte && c.bytes == bytes) return c;
  }
  return {kInvalidByte, 1};
}

// Start of the white space before `end`, not before `least`.
size_t space_begin(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    const CodePoint c = decode_before(text, end);
    if (!is_space(c.value)) break;
    end -= c.bytes;
  }
  return end;
}

size_t space_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (!is_space(c.value)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

// End-of-document names of GPT-2, NeoX, Qwen; Llama 3; Llama 2, Mistral; DeepSeek; Gemma.
std::optional<TokenId> find_end_of_document(const std::vector<AddedToken>& added) {
  for (const char* name :
       {"<|endoftext|>", "<|end_of_text|>", "</s>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "<eos>"}) {
    for (const AddedToken& token : added) {
      if (token.special && token.content == name) return token.id;
    }
  }
  const auto special = [](const AddedToken& token) { return token.special; };
  const auto only = std::find_if(added.begin(), added.end(), special);
  return std::count_if(added.begin(), added.end(), special) == 1 ? std::optional(only->id) : std::nullopt;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& spellings)
    : tokens_(std::move(tokens)) {
  nodes_.resize(1);
  bool single_words = false;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view spelling = spellings[i];
    if (spelling.empty()) continue;
    uint32_t node = 0;
    for (const char c : spelling) {
      const auto byte = static_cast<unsigned char>(c);
      auto& next = nodes_[node].next;
      const auto place = std::lower_bound(next.begin(), next.end(), std::pair(byte, uint32_t{0}));
      if (place != next.end() && place->first == byte) {
        node = place->second;
        continue;
      }
      const auto made = static_cast<uint32_t>(nodes_.size());
      next.insert(place, {byte, made});
      nodes_.emplace_back();
      node = made;
    }
    if (nodes_[node].token == kNone) nodes_[node].token = i;
    first_bytes_.set(byte_at(spelling, 0));
    for (size_t second = 0; second < 256; ++second) {
      if (spelling.size() == 1 || byte_at(spelling, 1) == second) first_pairs_.set(byte_at(spelling, 0) << 8 | second);
    }
    any_ordinary_ |= !tokens_[i].special;
    single_words |= tokens_[i].single_word;
  }
  if (!single_words) return;
  CodePointSet word = CodePointSet::word();
  word.add(0x200C, 0x200D);  // zero-width (non-)joiner
  word_ = word.ranges();
}

std::optional<AddedTokens::Found> AddedTokens::longest_at(std::string_view text, size_t at) const {
  std::optional<Found> found;
  for (uint32_t node = 0; at < text.size();) {
    const auto& next = nodes_[node].next;
    const auto byte = byte_at(text, at);
    const auto place = std::lower_bound(next.begin(), next.end(), std::pair(byte, uint32_t{0}));
    if (place == next.end() || place->first != byte) break;
    node = place->second;
    ++at;
    if (nodes_[node].token != kNone) found = Found{at, nodes_[node].token};
  }
  return found;
}

bool AddedTokens::is_word(char32_t c) const {
  const auto after = std::upper_bound(word_.begin(), word_.end(), c,
                                      [](char32_t value, const auto& range) { return value < range.first; });
  return after != word_.begin() && c <= std::prev(after)->last;
}

void AddedTokens::split(std::string_view text, bool allow_special, std::vector<Part>& parts) const {
  size_t done = 0;                          // text before this is in `parts`
  size_t spaces_begin = 0, spaces_end = 0;  // white space found after a token, not scanned again
  for (size_t at = 0; at < text.size();) {
    const bool may_begin = at + 1 < text.size() ? first_pairs_[byte_at(text, at) << 8 | byte_at(text, at + 1)]
                                                : first_bytes_[byte_at(text, at)];
    const auto found = may_begin ? longest_at(text, at) : std::nullopt;
    if (!found) {
      ++at;
      continue;
    }
    size_t begin = at, end = found->end;
    at = end;
    const AddedToken& token = tokens_[found->token];
    if (token.special && !allow_special) continue;
    if (token.single_word) {
      if (begin > 0 && is_word(decode_before(text, begin).value)) continue;
      if (end < text.size() && is_word(decode_utf8(text, end).value)) continue;
    }
    // White space taken by the previous token stays with it. White space taken by rstrip may be searched again, and a
    // token of spaces can then match inside it, as in the reference. Each character is scanned at most once for lstrip
    // and once for rstrip, so runs of tokens stay linear.
    if (token.lstrip) begin = std::max(space_begin(text, begin, done), done);
    if (token.rstrip) {
      if (end < spaces_begin || end >= spaces_end) {
        spaces_begin = end;
        spaces_end = space_end(text, end);
      }
      end = std::max(end, spaces_end);
    }
    if (done < begin) parts.push_back({done, begin, std::nullopt});
    parts.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), std::nullopt});
}

}  // namespace partita::internal
