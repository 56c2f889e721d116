#include "partita/tokenizer/split/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "partita/base/error.h"
#include "partita/tokenizer/split/regex_translation.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

constexpr size_t kStackStart = size_t{32} << 10, kStackMost = size_t{64} << 20;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// Search state per thread: allocated once, because texts may be short.
struct Workspace {
  Workspace()
      : match(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kStackStart, kStackMost, nullptr)) {
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Workspace() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

}  // namespace

struct Regex::Code {
  ~Code() { pcre2_code_free(compiled); }
  pcre2_code* compiled = nullptr;
  std::string origin;
};

Regex::Regex(std::string_view regex, std::string_view origin) : code_(std::make_unique<Code>()) {
  const std::string translated = translate_regex(regex, origin);
  code_->origin = origin;
  int error = 0;
  PCRE2_SIZE place = 0;
  code_->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &place, nullptr);
  if (code_->compiled == nullptr) {
    fail("{}: the regular expression {} is not supported: {}", origin, regex, message_of(error));
  }
  // Without JIT support PCRE2 interprets: slower, but with the same matches.
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<Match>& matches) const {
  for (size_t begin = 0; begin < text.size();) {
    const size_t bad = find_invalid_utf8(text, begin).value_or(text.size());
    if (bad > begin) find_in_valid(text.substr(begin, bad - begin), begin, matches);
    begin = bad + 1;
  }
}

void Regex::find_in_valid(std::string_view text, size_t offset, std::vector<Match>& matches) const {
  thread_local const Workspace workspace;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t from = 0;
  bool after_match = false;  // at `from`, where an empty match would coincide with the end of the last match
  while (from <= text.size()) {
    const int rc = pcre2_match(code_->compiled, subject, text.size(), from, PCRE2_NO_UTF_CHECK, workspace.match,
                               workspace.context);
    if (rc == PCRE2_ERROR_NOMATCH) return;
    if (rc < 0) fail("{}: the regular expression could not be matched: {}", code_->origin, message_of(rc));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(workspace.match);
    const size_t begin = ends[0], end = ends[1];
    if (begin == end) {
      if (!(after_match && begin == from)) matches.push_back({offset + begin, offset + end});
      if (begin >= text.size()) return;
      from = begin + decode_utf8(text, begin).bytes;
      after_match = false;
    } else {
      matches.push_back({offset + begin, offset + end});
      from = end;
      after_match = true;
    }
  }
}

}  // namespace partita::internal
