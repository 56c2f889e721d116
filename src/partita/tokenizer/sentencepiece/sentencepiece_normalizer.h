// SentencePiece's text normalization: the model's rules (NFKC and the like), spaces, and U+FFFD for each byte that is
// not part of well-formed UTF-8.
//
//   const SentencePieceNormalizer normalizer(model.normalizer, false, user_defined, SpaceForm::compact, "t.model");
//   normalizer.normalize(" Hello  world", out);      // "▁Hello▁world", with ' ' in place of ▁
//
// SpaceForm::compact writes U+2581 as ' ', whether it came from a space or was in the text. The model's pieces are
// converted to the same form, so a text normalizes to itself if the model has no rules.
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
  literal,  // as in the reference
  compact,  // with escape_whitespaces: ' ' in place of U+2581
};

// Length of the longest string in `set` that `text` begins with, among the 64 shortest (the reference's limit); 0 if
// there is none.
[[nodiscard]] size_t longest_prefix(const ByteTrie& set, std::string_view text);

class SentencePieceNormalizer {
 public:
  // Leaves `user_defined` strings unchanged; keeps a reference to the set. Error: those of PrecompiledCharsmap, with
  // `origin`.
  SentencePieceNormalizer(const SentencePieceModel::NormalizerSpec& spec, bool whitespace_as_suffix,
                          const ByteTrie& user_defined, SpaceForm form, std::string_view origin);

  // `out` is overwritten.
  void normalize(std::string_view text, std::string& out) const;

 private:
  struct Step {
    size_t bytes;             // in the text
    std::string_view result;  // a view of the text, the rules or a constant
  };
  [[nodiscard]] Step step(std::string_view text) const;
  // Length of the beginning of `text` that is unchanged by normalization, whatever follows.
  [[nodiscard]] size_t plain_prefix(std::string_view text) const;
  void append(std::string_view result, std::string& out) const;

  PrecompiledCharsmap rules_;
  const ByteTrie* user_defined_;
  bool add_space_, space_behind_, remove_extra_;
  std::string_view space_;         // replacement for a space
  bool blocks_to_spaces_;          // write U+2581 as ' '
  bool without_rules_;             // only U+2581 and ill-formed UTF-8 change
  std::array<bool, 128> plain_{};  // ASCII that, before ASCII, starts no rule and no user-defined symbol
};

}  // namespace partita::internal
