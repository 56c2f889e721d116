// SentencePiece's normalization of a text: rules of the model (NFKC and the like), spaces, U+FFFD for each byte that is
// no part of well-formed UTF-8.
//
//   const SentencePieceNormalizer normalizer(model.normalizer, false, user_defined, SpaceForm::compact, "t.model");
//   normalizer.normalize(" Hello  world", out);      // "▁Hello▁world", with ' ' in the place of ▁
//
// SpaceForm::compact writes U+2581, whether it comes from a space or stands in the text, as ' ': the model's pieces are
// brought into the same form, and a text of a model without rules then is its own normal form.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "partita/tokenizer/sentencepiece/precompiled_charsmap.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_model.h"
#include "partita/tokenizer/unigram/byte_trie.h"

namespace partita::internal {

inline constexpr std::string_view kSpaceBlock = "\xE2\x96\x81";  // U+2581

enum class SpaceForm : uint8_t {
  literal,  // the reference's own
  compact,  // with escape_whitespaces: ' ' for U+2581
};

// The length of the longest string of `set` that `text` begins with, 0 if there is none; of the first 64 by length,
// the reference's limit.
[[nodiscard]] size_t longest_prefix(const ByteTrie& set, std::string_view text);

class SentencePieceNormalizer {
 public:
  // `user_defined` are left as they are and kept by reference. Error: PrecompiledCharsmap's, with `origin`.
  SentencePieceNormalizer(const SentencePieceModel::NormalizerSpec& spec, bool whitespace_as_suffix,
                          const ByteTrie& user_defined, SpaceForm form, std::string_view origin);

  // `out` is overwritten.
  void normalize(std::string_view text, std::string& out) const;

 private:
  struct Step {
    size_t bytes;             // of the text
    std::string_view result;  // into the text, the rules or a constant
  };
  [[nodiscard]] Step step(std::string_view text) const;
  // The beginning of `text` that is its own normal form, whatever follows.
  [[nodiscard]] size_t plain_prefix(std::string_view text) const;
  void append(std::string_view result, std::string& out) const;

  PrecompiledCharsmap rules_;
  const ByteTrie* user_defined_;
  bool add_space_, space_behind_, remove_extra_;
  std::string_view space_;         // what a space becomes
  bool blocks_to_spaces_;          // U+2581 becomes ' '
  bool without_rules_;             // nothing changes but U+2581 and ill-formed UTF-8
  std::array<bool, 128> plain_{};  // ASCII in front of ASCII that no rule and no user-defined symbol begins with
};

}  // namespace partita::internal
