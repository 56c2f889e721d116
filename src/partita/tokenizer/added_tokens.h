// Added tokens of tokenizer.json: matched in the text before any other splitting.
//
//   const AddedTokens tokens({{.content = "<|endoftext|>", .id = 50256, .special = true}}, {"<|endoftext|>"});
//   std::vector<AddedTokens::Part> parts;
//   tokens.split("a<|endoftext|>b", true, parts);   // "a", token 50256, "b"
//
// As in Hugging Face's tokenizers: the longest match at a position wins, and a match is never reconsidered, even if
// single_word or allow_special then rejects it.
#pragma once
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/tokenizer/tokenizer.h"
#include "partita/unicode/code_point_set.h"

namespace partita::internal {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool single_word = false;  // match only without an adjacent \w character
  bool lstrip = false;       // include the white space before it
  bool rstrip = false;       // include the white space after it
  bool normalized = false;   // match in normalized text, after normalizing the token itself
  bool special = false;      // treated as ordinary text unless EncodeOptions::allow_special
};

// The special token with a well-known end-of-document name, or the only special token.
[[nodiscard]] std::optional<TokenId> find_end_of_document(const std::vector<AddedToken>& added);

class AddedTokens {
 public:
  struct Part {
    size_t begin, end;
    std::optional<TokenId> id;  // empty: ordinary text
  };

  AddedTokens() = default;
  // spellings[i] is matched in place of tokens[i].content; an empty spelling is never matched.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& spellings);

  // Whether any token can match; if not, split() may be skipped.
  [[nodiscard]] bool any(bool allow_special) const { return allow_special ? !tokens_.empty() : any_ordinary_; }
  // Appends the non-empty parts of `text`. Worst case: length of the text times the longest spelling.
  void split(std::string_view text, bool allow_special, std::vector<Part>& parts) const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;  // sorted
    uint32_t token = kNone;                                // the token that ends at this node
  };
  struct Found {
    size_t end;
    uint32_t token;
  };
  [[nodiscard]] std::optional<Found> longest_at(std::string_view text, size_t at) const;
  [[nodiscard]] bool is_word(char32_t code_point) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::bitset<256> first_bytes_;
  std::bitset<65536>
      first_pairs_;  // by the first two bytes of a token; a single-byte token sets all pairs with its byte
  std::vector<CodePointSet::Range> word_;
  bool any_ordinary_ = false;
};

}  // namespace partita::internal
