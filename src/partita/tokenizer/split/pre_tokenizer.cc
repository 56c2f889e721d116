#include "partita/tokenizer/split/pre_tokenizer.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/tokenizer/byte_level.h"
#include "partita/unicode/normal_forms.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

struct Part {
  size_t begin, end;
  bool match;
};

bool is_digit(char32_t c) {
  // Ten digits and three signs were added in Unicode 17.
  return char_class(c) == CharClass::number || (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
}

// Consecutive parts that cover the text: matches and the text between them.
class Parts {
 public:
  explicit Parts(std::string_view text) : text_(text) {}
  void match(size_t begin, size_t end) {
    if (begin > done_) parts_.push_back({done_, begin, false});
    parts_.push_back({begin, end, true});
    done_ = end;
  }
  std::vector<Part> finish() {
    if (done_ < text_.size()) parts_.push_back({done_, text_.size(), false});
    return std::move(parts_);
  }

 private:
  std::string_view text_;
  std::vector<Part> parts_;
  size_t done_ = 0;
};

std::vector<Part> find_parts(const Matcher& matcher, std::string_view text) {
  Parts parts(text);
  if (const auto* characters = std::get_if<Matcher::Characters>(&matcher.what)) {
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      if (characters->holds(c.value)) parts.match(at, at + c.bytes);
      at += c.bytes;
    }
  } else if (const auto* exactly = std::get_if<std::string>(&matcher.what)) {
    for (size_t at = exactly->empty() ? std::string_view::npos : text.find(*exactly); at != std::string_view::npos;
         at = text.find(*exactly, at + exactly->size())) {
      parts.match(at, at + exactly->size());
    }
  } else if (const auto* pattern = std::get_if<SplitPattern>(&matcher.what)) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = pretoken_end(*pattern, text, begin);
      parts.match(begin, end);
      begin = end;
    }
  } else {
    std::vector<Regex::Match> found;
    std::get<std::shared_ptr<const Regex>>(matcher.what)->find_all(text, found);
    for (const auto& [begin, end] : found) parts.match(begin, end);
  }
  return parts.finish();
}

// Joins neighboring parts and drops removed ones.
std::vector<Part> arranged(std::vector<Part> parts, SplitBehavior behavior) {
  std::vector<Part> result;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::isolated:
      return parts;
    case SplitBehavior::removed:
      std::erase_if(parts, [](const Part& part) { return part.match; });
      return parts;
    case SplitBehavior::contiguous:
      for (const Part& part : parts) {
        if (!result.empty() && part.match == previous) {
          result.back().end = part.end;
        } else {
          result.push_back(part);
        }
        previous = part.match;
      }
      return result;
    case SplitBehavior::merged_with_previous:
      for (const Part& part : parts) {
        if (part.match && !previous && !result.empty()) {
          result.back().end = part.end;
        } else {
          result.push_back(part);
        }
        previous = part.match;
      }
      return result;
    case SplitBehavior::merged_with_next:
      for (size_t i = parts.size(); i-- > 0;) {
        if (parts[i].match && !previous && !result.empty()) {
          result.back().begin = parts[i].begin;
        } else {
          result.push_back(parts[i]);
        }
        previous = parts[i].match;
      }
      std::reverse(result.begin(), result.end());
      return result;
  }
  return result;
}

void cut(const SplitStep& step, std::string_view piece, std::vector<std::string_view>& out) {
  std::vector<Part> parts = find_parts(step.matcher, piece);
  if (step.invert) {
    for (Part& part : parts) part.match = !part.match;
  }
  for (const Part& part : arranged(std::move(parts), step.behavior)) {
    if (part.end > part.begin) out.push_back(piece.substr(part.begin, part.end - part.begin));
  }
}

std::string_view kept(std::string text, std::deque<std::string>& arena) { return arena.emplace_back(std::move(text)); }

}  // namespace

Matcher Matcher::digits() { return {Characters{is_digit}}; }
Matcher Matcher::punctuation() { return {Characters{is_punctuation}}; }
Matcher Matcher::white_space() { return {Characters{is_space}}; }
Matcher Matcher::regex(std::string_view pattern, std::string_view origin) {
  if (const auto known = find_split_pattern(pattern)) return {*known};
  return {std::make_shared<const Regex>(pattern, origin)};
}

std::string Matcher::replace(std::string_view text, std::string_view content, size_t most) const {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  const auto append = [&](std::string_view piece) {
    if (piece.size() > most - out.size()) fail("a replacement makes a text of {} bytes too long", text.size());
    out += piece;
  };
  if (const auto* exactly = std::get_if<std::string>(&what); exactly != nullptr && !exactly->empty()) {
    for (size_t at = 0;;) {
      const size_t found = text.find(*exactly, at);
      append(text.substr(at, found - at));
      if (found == std::string_view::npos) return out;
      append(content);
      at = found + exactly->size();
    }
  }
  for (const Part& part : find_parts(*this, text)) {
    append(part.match ? content : text.substr(part.begin, part.end - part.begin));
  }
  return out;
}

bool PreTokenizer::byte_level() const {
  return std::any_of(steps.begin(), steps.end(),
                     [](const auto& step) { return std::holds_alternative<ByteLevelStep>(step); });
}

std::optional<SimpleSplit> PreTokenizer::simplified() const {
  const auto* last = steps.empty() ? nullptr : std::get_if<ByteLevelStep>(&steps.back());
  if (last == nullptr) return std::nullopt;
  if (steps.size() == 1) {
    return SimpleSplit{last->use_regex ? SplitPattern::gpt2 : SplitPattern::whole, last->add_prefix_space};
  }
  const auto* first = std::get_if<SplitStep>(&steps.front());
  const auto* pattern = first == nullptr ? nullptr : std::get_if<SplitPattern>(&first->matcher.what);
  // These patterns match the whole text. Of the other behaviors, contiguous would join all matches, and an inverted
  // `removed` would keep them like `isolated`.
  if (steps.size() != 2 || pattern == nullptr || first->behavior != SplitBehavior::isolated || last->use_regex ||
      last->add_prefix_space) {
    return std::nullopt;
  }
  return SimpleSplit{*pattern, false};
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text, bool at_start,
                                                  std::deque<std::string>& arena) const {
  std::vector<std::string_view> pieces, next;
  if (!text.empty()) pieces.push_back(text);
  bool printable = false;
  for (const PreTokenizerStep& step : steps) {
    next.clear();
    for (size_t i = 0; i < pieces.size(); ++i) {
      std::string_view piece = pieces[i];
      if (const auto* split_step = std::get_if<SplitStep>(&step)) {
        cut(*split_step, piece, next);
      } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
        using Prepend = MetaspaceStep::Prepend;
        std::string changed = Matcher::text(" ").replace(piece, metaspace->replacement);
        const bool wanted =
            metaspace->prepend == Prepend::always || (metaspace->prepend == Prepend::first && at_start && i == 0);
        if (wanted && !changed.starts_with(metaspace->replacement)) changed.insert(0, metaspace->replacement);
        piece = kept(std::move(changed), arena);
        if (metaspace->split) {
          cut({Matcher::text(metaspace->replacement), SplitBehavior::merged_with_next}, piece, next);
        } else {
          next.push_back(piece);
        }
      } else {
        const auto& byte_level_step = std::get<ByteLevelStep>(step);
        if (byte_level_step.add_prefix_space && !piece.starts_with(' ')) piece = kept(" " + std::string(piece), arena);
        if (byte_level_step.use_regex) {
          cut({{SplitPattern::gpt2}, SplitBehavior::isolated}, piece, next);
        } else {
          next.push_back(piece);
        }
      }
    }
    pieces.swap(next);
    // Steps after ByteLevel see the printable form; if there are none, it need not be created.
    if (std::holds_alternative<ByteLevelStep>(step) && &step != &steps.back()) {
      for (std::string_view& piece : pieces) piece = kept(to_printable(piece), arena);
      printable = true;
    }
  }
  if (printable) {
    for (std::string_view& piece : pieces) piece = kept(from_printable(piece).value_or(std::string(piece)), arena);
  }
  return pieces;
}

}  // namespace partita::internal
