// Prompts and completions as ids: special tokens that they spell, and what a tokenizer puts in front of a text.
//
//   PromptEncoder encoder(*tokenizer, {});                                 // one per thread
//   encoder.prompt("<|im_start|>user\nHello<|im_end|>\n", ids);            // markers are tokens, <s> comes first
//   encoder.completion("Hi<|im_end|>", ids);
//   if (encoder.unread()) log::warn("{}", describe(*encoder.unread(), "a.jsonl", "data.allow_special = true"));
//
// The defaults are those of transformers, whose tokenizers read a text so. Only in one thing this differs: a prompt
// that already begins with what would be put in front, as chat templates write it, gets it once.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "partita/tokenizer/added_tokens.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

struct PromptSpecials {
  bool allow_special = true;  // text that spells a special token is that token; else ordinary text
  bool add_special = true;    // the tokens that the tokenizer's file puts in front of a text, in front of a prompt
};

// Texts in which something looks like a special token and is read as ordinary text.
struct UnreadMarkers {
  int64_t texts = 0;
  std::string first;          // of those found, such as <|im_start|>
  bool known = false;         // the tokenizer has such a token
  bool switched_off = false;  // and would find it, were that not switched off
};

class PromptEncoder {
 public:
  // Keeps a reference to the tokenizer.
  PromptEncoder(const Tokenizer& tokenizer, const PromptSpecials& specials);

  // Appends the ids of a prompt, or of a completion, before which nothing is put.
  void prompt(std::string_view text, std::vector<TokenId>& ids);
  void completion(std::string_view text, std::vector<TokenId>& ids);
  // Of all texts so far.
  [[nodiscard]] const std::optional<UnreadMarkers>& unread() const { return unread_; }

 private:
  void look_for_markers(std::string_view text);
  [[nodiscard]] bool is_token(const std::string& marker);
  void count(std::string_view marker, bool known);

  std::vector<TokenId> in_front_;
  std::unique_ptr<Encoder> encoder_;
  internal::AddedTokens plain_;                    // special tokens that are ordinary text here
  std::unordered_map<std::string, bool> markers_;  // whether each is a token of the tokenizer
  bool switched_off_ = false;
  std::optional<UnreadMarkers> unread_;
};

// Both together.
[[nodiscard]] std::optional<UnreadMarkers> joined(std::optional<UnreadMarkers> a,
                                                  const std::optional<UnreadMarkers>& b);

// A sentence for a warning. `where` is the file, `remedy` what would make a known marker a token.
[[nodiscard]] std::string describe(const UnreadMarkers& unread, std::string_view where, std::string_view remedy);

}  // namespace partita
