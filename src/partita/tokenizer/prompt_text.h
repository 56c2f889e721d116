// Encodes prompts and completions: handles special tokens spelled in them and tokens that the tokenizer prepends.
//
//   PromptEncoder encoder(*tokenizer, {});                                 // one per thread
//   encoder.prompt("<|im_start|>user\nHello<|im_end|>\n", ids);            // markers are tokens, <s> comes first
//   encoder.completion("Hi<|im_end|>", ids);
//   if (encoder.unread()) log::warn("{}", describe(*encoder.unread(), "a.jsonl", "data.allow_special = true"));
//
// The defaults match transformers' tokenizers, with one difference: if a prompt already begins with the prepended
// tokens, as chat templates write them, they are not added again.
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
  bool allow_special = true;  // text that spells a special token becomes that token; otherwise it is ordinary text
  bool add_special = true;    // start each prompt with the tokens that the tokenizer file prepends
};

// Statistics of texts that contain something like a special token that was encoded as ordinary text.
struct UnreadMarkers {
  int64_t texts = 0;
  std::string first;          // the first one found, such as <|im_start|>
  bool known = false;         // it is a token of the tokenizer
  bool switched_off = false;  // it would be matched, but matching is switched off
};

class PromptEncoder {
 public:
  // Keeps a reference to the tokenizer.
  PromptEncoder(const Tokenizer& tokenizer, const PromptSpecials& specials);

  // Appends the ids of a prompt, or of a completion, which gets no prepended tokens.
  void prompt(std::string_view text, std::vector<TokenId>& ids);
  void completion(std::string_view text, std::vector<TokenId>& ids);
  // Over all texts so far.
  [[nodiscard]] const std::optional<UnreadMarkers>& unread() const { return unread_; }

 private:
  void look_for_markers(std::string_view text);
  [[nodiscard]] bool is_token(const std::string& marker);
  void count(std::string_view marker, bool known);

  std::vector<TokenId> in_front_;
  std::unique_ptr<Encoder> encoder_;
  internal::AddedTokens plain_;                    // special tokens that are ordinary text here
  std::unordered_map<std::string, bool> markers_;  // marker -> whether the tokenizer has it as a token
  bool switched_off_ = false;
  std::optional<UnreadMarkers> unread_;
};

// Combines two statistics.
[[nodiscard]] std::optional<UnreadMarkers> joined(std::optional<UnreadMarkers> a,
                                                  const std::optional<UnreadMarkers>& b);

// Text for a warning. `where`: the file; `remedy`: the setting that would turn a known marker into a token.
[[nodiscard]] std::string describe(const UnreadMarkers& unread, std::string_view where, std::string_view remedy);

}  // namespace partita
