#include "partita/tokenizer/split/gpt2_split.h"

#include <algorithm>

#include "partita/tokenizer/split/contractions.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

size_t gpt2_pretoken_end(std::string_view text, size_t begin) {
  const internal::ClassTable& class_of = internal::class_table();
  if (text[begin] == '\'') {
    if (const size_t bytes = contraction_bytes(text, begin); bytes > 0) return begin + bytes;
  }
  CodePoint c = decode_utf8(text, begin);
  CharClass run = class_of[c.value];
  size_t at = begin + c.bytes;
  if (text[begin] == ' ' && at < text.size()) {  // a single space joins the following run
    c = decode_utf8(text, at);
    run = class_of[c.value];
    at += c.bytes;
  }
  size_t last = at - c.bytes;  // start of the run's last code point
  while (at < text.size()) {
    c = decode_utf8(text, at);
    if (class_of[c.value] != run) break;
    last = at;
    at += c.bytes;
  }
  // \s+(?!\S): the last space of a run belongs to the next pretoken, unless the text ends or it is the only space.
  if (run == CharClass::space && at < text.size() && last > begin) return last;
  return at;
}

size_t gpt2_safe_cut(std::string_view text, size_t from) {
  for (size_t at = std::max<size_t>(from, 1); at < text.size(); ++at) {
    const auto before = static_cast<unsigned char>(text[at - 1]);
    if (is_ascii_space(text[at]) && before < 0x80 && !is_ascii_space(text[at - 1])) return at;
  }
  return text.size();
}

}  // namespace partita::internal
