#include "partita/tokenizer/normalizer.h"

#include "partita/tokenizer/unicode.h"

namespace partita {
namespace {

bool is_space(char32_t c) { return char_class(c) == CharClass::space; }

std::string stripped(const StripStep& step, std::string_view text) {
  size_t begin = 0, end = 0;  // end: behind the last character that is no space
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

std::string apply_step(const NormalizerStep& step, std::string_view text) {
  if (const auto* form = std::get_if<NormalForm>(&step)) return normalized(*form, text);
  if (const auto* prepend = std::get_if<PrependStep>(&step)) {
    return text.empty() ? std::string() : prepend->text + std::string(text);
  }
  if (const auto* replace = std::get_if<ReplaceStep>(&step)) return replace->matcher.replace(text, replace->content);
  if (const auto* strip = std::get_if<StripStep>(&step)) return stripped(*strip, text);
  return without_marks(text);
}

}  // namespace

std::string Normalizer::apply(std::string_view text) const {
  std::string result;
  bool first = true;
  for (const NormalizerStep& step : steps) {
    result = apply_step(step, first ? text : std::string_view(result));
    first = false;
  }
  return first ? std::string(text) : result;
}

}  // namespace partita
