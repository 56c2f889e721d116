#include "partita/tokenizer/prompt_text.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

// Finds the next <|name|>, the form of most chat markers, from `at` on; empty if there is none.
std::optional<std::string_view> next_marker(std::string_view text, size_t& at) {
  constexpr size_t kLongestName = 48;
  for (; (at = text.find("<|", at)) != std::string_view::npos; ++at) {
    size_t end = at + 2;
    const auto is_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    };
    while (end < text.size() && end < at + 2 + kLongestName && is_name(text[end])) ++end;
    if (end == at + 2 || !text.substr(end).starts_with("|>")) continue;
    const std::string_view marker = text.substr(at, end + 2 - at);
    at = end + 2;
    return marker;
  }
  return std::nullopt;
}

AddedTokens special_tokens_of(const Tokenizer& tokenizer) {
  std::vector<AddedToken> tokens;
  std::vector<std::string> spellings = tokenizer.special_tokens().spellings;
  for (const std::string& spelling : spellings) tokens.push_back({.content = spelling, .special = true});
  return {std::move(tokens), spellings};
}

}  // namespace

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, const PromptSpecials& specials)
    : encoder_(tokenizer.make_encoder({.allow_special = specials.allow_special})) {
  if (specials.add_special) {
    const auto front = tokenizer.tokens_in_front();
    in_front_.assign(front.begin(), front.end());
  }
  const bool found_in_text = tokenizer.special_tokens().found_in_text;
  switched_off_ = found_in_text && !specials.allow_special;
  if (!specials.allow_special || !found_in_text) plain_ = special_tokens_of(tokenizer);
}

void PromptEncoder::prompt(std::string_view text, std::vector<TokenId>& ids) {
  const size_t begin = ids.size();
  completion(text, ids);
  const auto own = std::span(ids).subspan(begin);
  if (own.size() >= in_front_.size() && std::equal(in_front_.begin(), in_front_.end(), own.begin())) return;
  ids.insert(ids.begin() + static_cast<ptrdiff_t>(begin), in_front_.begin(), in_front_.end());
}

void PromptEncoder::completion(std::string_view text, std::vector<TokenId>& ids) {
  encoder_->encode(text, ids);
  look_for_markers(text);
}

void PromptEncoder::look_for_markers(std::string_view text) {
  if (plain_.any(true)) {
    std::vector<AddedTokens::Part> parts;
    plain_.split(text, true, parts);
    const auto found = std::ranges::find_if(parts, [](const AddedTokens::Part& part) { return part.id.has_value(); });
    if (found != parts.end()) return count(text.substr(found->begin, found->end - found->begin), true);
  }
  size_t at = 0;
  while (const auto marker = next_marker(text, at)) {
    if (!is_token(std::string(*marker))) return count(*marker, false);
  }
}

bool PromptEncoder::is_token(const std::string& marker) {
  const auto [place, is_new] = markers_.try_emplace(marker);
  if (is_new) {
    std::vector<TokenId> ids;
    encoder_->encode(marker, ids);
    place->second = ids.size() == 1;
  }
  return place->second;
}

void PromptEncoder::count(std::string_view marker, bool known) {
  if (!unread_) unread_ = UnreadMarkers{.first = std::string(marker), .known = known, .switched_off = switched_off_};
  ++unread_->texts;
}

std::optional<UnreadMarkers> joined(std::optional<UnreadMarkers> a, const std::optional<UnreadMarkers>& b) {
  if (!a) return b;
  if (b) a->texts += b->texts;
  return a;
}

std::string describe(const UnreadMarkers& unread, std::string_view where, std::string_view remedy) {
  const std::string count = unread.texts == 1 ? "1 text spells" : fmt::format("{} texts spell", unread.texts);
  if (unread.known)
    return fmt::format(
        "{}: {} special tokens, such as {}, that are read as ordinary text: {}", where, count, unread.first,
        unread.switched_off ? remedy : "a SentencePiece model finds none, the model's tokenizer.json does");
  return fmt::format("{}: {} markers, such as {}, that are not tokens of this tokenizer and are read as ordinary text",
                     where, count, unread.first);
}

}  // namespace partita
