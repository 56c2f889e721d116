#include "partita/tokenizer/normalizer.h"

#include "partita/base/error.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

std::string stripped(const StripStep& step, std::string_view text) {
  size_t begin = 0, end = 0;  // end: past the last non-space character
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += c.bytes;
    if (is_space(c.value)) {
      if (end == 0) begin = at;
    } else {
      end = at;
    }
  }
  if (end == 0) return step.left || step.right ? std::string() : std::string(text);
  if (!step.left) begin = 0;
  if (!step.right) end = text.size();
  return std::string(text.substr(begin, end - begin));
}

std::string without_marks(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (!is_mark(c.value)) out += text.substr(at, c.bytes);
    at += c.bytes;
  }
  return out;
}

// Returns `text` if unchanged, else a view of `out`, which must not hold `text`.
std::string_view apply_step(const NormalizerStep& step, std::string_view text, std::string& out, size_t most) {
  if (const auto* form = std::get_if<NormalForm>(&step)) return normalized(*form, text, out);
  if (const auto* prepend = std::get_if<PrependStep>(&step)) {
    if (text.empty()) return text;
    return out.assign(prepend->text).append(text);
  }
  if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
    return out = replace->matcher.replace(text, replace->content, most);
  }
  if (const auto* strip = std::get_if<StripStep>(&step)) return out = stripped(*strip, text);
  return out = without_marks(text);
}

}  // namespace

std::string_view Normalizer::apply(std::string_view text, Buffers& buffers) const {
  const size_t whole = text.size(), most = most_bytes(whole);
  for (const NormalizerStep& step : steps) {
    std::string_view after;
    try {
      after = apply_step(step, text, buffers.next, most);
      if (after.size() > most) fail("the text of {} bytes becomes too long", whole);
    } catch (const Error& error) {
      fail("{}: step {} of {}: {}: at most {} bytes are expected of a text of {}", origin, &step - steps.data() + 1,
           steps.size(), error.what(), most, whole);
    }
    if (after.data() == text.data()) {
      text = after;
      continue;
    }
    buffers.now.swap(buffers.next);
    text = buffers.now;  // swapping moves short strings
  }
  return text;
}

std::string Normalizer::apply(std::string_view text) const {
  Buffers buffers;
  return std::string(apply(text, buffers));
}

}  // namespace partita::internal
