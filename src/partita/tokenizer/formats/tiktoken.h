// tiktoken files: each line has a token's bytes in base64 and its id, which is also its rank. tokenizer.model of Llama
// 3 and 4 is such a file too. The split pattern and the special tokens are not in the file; they follow from the kind,
// which is recognized by file name (cl100k_base.tiktoken) or number of tokens.
//
//   const auto tokenizer = load_tiktoken("cl100k_base.tiktoken");
//   const auto own = load_tiktoken("mine.tiktoken", "llama3");
//
// Ids equal those of tiktoken: in a pretoken, the pair that joins to the token with the lowest id merges first, and a
// pretoken that is a token becomes that token. Bytes that are not UTF-8 are encoded as they are.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"
#include "partita/tokenizer/split/splitter.h"

namespace partita::internal {

struct TiktokenKind {
  std::string_view name;
  SplitPattern pattern;
  size_t tokens;  // number of lines in the file
  struct Special {
    std::string name;
    TokenId id;
  };
  // The special tokens for a file with this many tokens.
  std::vector<Special> (*special)(size_t tokens);
  std::string_view begin_of_text;  // a special token, or ""
};

// The known kinds: r50k_base (gpt2), p50k_base, p50k_edit, cl100k_base, o200k_base, llama3, llama4, qwen.
[[nodiscard]] std::vector<TiktokenKind> tiktoken_kinds();

// Empty `kind`: recognized by name or number of tokens. Error: an invalid line, two tokens with the same bytes or id, a
// byte without a token; an unknown or unrecognized kind (the message lists the known ones).
[[nodiscard]] std::unique_ptr<Tokenizer> load_tiktoken(const std::filesystem::path& path, std::string_view kind = {});

// Whether the head of a file looks like a tiktoken file: a base64 word, a space and a number.
[[nodiscard]] bool looks_like_tiktoken(std::string_view head);

// The tokens of the file, with the merges implied by their ranks. `origin` prefixes error messages.
[[nodiscard]] BpeModel parse_tiktoken(std::string_view text, std::string_view origin);

}  // namespace partita::internal
