// Added tokens of tokenizer.json: found in a text before anything else cuts it.
//
//   const AddedTokens tokens({{.content = "<|endoftext|>", .id = 50256, .special = true}}, {"<|endoftext|>"});
//   std::vector<AddedTokens::Part> parts;
//   tokens.split("a<|endoftext|>b", true, parts);   // "a", token 50256, "b"
//
// As in Hugging Face's tokenizers: of several that begin at one place the longest; what was found stays found, also
// where single_word or allow_special then turns it down.
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
  bool single_word = false;  // only where no \w stands beside it
  bool lstrip = false;       // takes the white space in front with it
  bool rstrip = false;       // or behind
  bool normalized = false;   // is looked for in the normalized text, and normalized itself
  bool special = false;      // ordinary text unless EncodeOptions::allow_special
};

// The special token of a name that is known to end documents, or the only special token.
[[nodiscard]] std::optional<TokenId> find_end_of_document(const std::vector<AddedToken>& added);

class AddedTokens {
 public:
  struct Part {
    size_t begin, end;
    std::optional<TokenId> id;  // nothing: text
  };

  AddedTokens() = default;
  // spellings[i] is what is looked for in the place of tokens[i].content; an empty one is not.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& spellings);

  // Whether any may be found at all: split() need not be asked otherwise.
  [[nodiscard]] bool any(bool allow_special) const { return allow_special ? !tokens_.empty() : any_ordinary_; }
  // Appends the parts of `text`, none empty. Linear in the text times the longest spelling at worst.
  void split(std::string_view text, bool allow_special, std::vector<Part>& parts) const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;  // ascending
    uint32_t token = kNone;                                // the token that ends here
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
  std::bitset<65536> first_pairs_;  // of the first two bytes; all of a token's that has only one
  std::vector<CodePointSet::Range> word_;
  bool any_ordinary_ = false;
};

}  // namespace partita::internal
