#include "partita/text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/utext.h>

#include <algorithm>
#include <array>
#include <utility>

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

// Language names as in Megatron's --lang, which are punkt's.
constexpr std::array<std::pair<std::string_view, const char*>, 17> kLanguages = {{{"czech", "cs"},
                                                                                  {"danish", "da"},
                                                                                  {"dutch", "nl"},
                                                                                  {"english", "en"},
                                                                                  {"estonian", "et"},
                                                                                  {"finnish", "fi"},
                                                                                  {"french", "fr"},
                                                                                  {"german", "de"},
                                                                                  {"greek", "el"},
                                                                                  {"italian", "it"},
                                                                                  {"norwegian", "nb"},
                                                                                  {"polish", "pl"},
                                                                                  {"portuguese", "pt"},
                                                                                  {"russian", "ru"},
                                                                                  {"spanish", "es"},
                                                                                  {"swedish", "sv"},
                                                                                  {"turkish", "tr"}}};

constexpr std::string_view kSpace = " \t\n\v\f\r";

std::string_view without_space(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

icu::Locale locale_of(const std::string& language) {
  const auto named = std::ranges::find(kLanguages, language, &std::pair<std::string_view, const char*>::first);
  const std::string code = named == kLanguages.end() ? language : named->second;
  const icu::Locale locale((code + "@ss=standard").c_str());
  int32_t count = 0;
  const icu::Locale* all = icu::Locale::getAvailableLocales(count);
  const std::string_view wanted = locale.getLanguage();
  const auto same = [wanted](const icu::Locale& l) { return l.getLanguage() == wanted; };
  if (wanted.empty() || locale.isBogus() || std::none_of(all, all + count, same))
    fail("no rules for sentences of the language \"{}\": a code such as en or de expected", language);
  return locale;
}

}  // namespace

struct SentenceSplitter::Icu {
  std::unique_ptr<icu::BreakIterator> iterator;
  UText text = UTEXT_INITIALIZER;
  ~Icu() { utext_close(&text); }
};

SentenceSplitter::SentenceSplitter(const SentenceOptions& options)
    : icu_(std::make_unique<Icu>()), keep_newlines_(options.keep_newlines) {
  const icu::Locale locale = locale_of(options.language);
  UErrorCode status = U_ZERO_ERROR;
  icu_->iterator.reset(icu::BreakIterator::createSentenceInstance(locale, status));
  if (U_FAILURE(status)) fail("sentences of the language \"{}\": {}", options.language, u_errorName(status));
}

SentenceSplitter::SentenceSplitter(SentenceSplitter&&) noexcept = default;
SentenceSplitter::~SentenceSplitter() = default;

std::span<const std::string_view> SentenceSplitter::split(std::string_view text) {
  sentences_.clear();
  UErrorCode status = U_ZERO_ERROR;
  utext_openUTF8(&icu_->text, text.data(), static_cast<int64_t>(text.size()), &status);
  icu_->iterator->setText(&icu_->text, status);
  if (U_FAILURE(status)) fail("a text of {} bytes cannot be cut into sentences: {}", text.size(), u_errorName(status));
  size_t begin = 0;
  icu_->iterator->first();
  for (int32_t end = icu_->iterator->next(); end != icu::BreakIterator::DONE; end = icu_->iterator->next()) {
    const std::string_view sentence = text.substr(begin, static_cast<size_t>(end) - begin);
    const std::string_view content = without_space(sentence);
    if (!keep_newlines_) {
      if (!content.empty()) sentences_.push_back(content);
    } else if (content.empty() && !sentences_.empty()) {
      // An empty line belongs to the preceding sentence.
      std::string_view& before = sentences_.back();
      before = text.substr(static_cast<size_t>(before.data() - text.data()), before.size() + sentence.size());
    } else if (content.empty()) {
      continue;  // leading white space belongs to the first sentence
    } else {
      sentences_.push_back(sentence);
    }
    begin = static_cast<size_t>(end);
  }
  return sentences_;
}

}  // namespace partita
