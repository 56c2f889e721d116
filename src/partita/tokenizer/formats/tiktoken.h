// tiktoken's files: a token a line, its bytes in base64 and its id, which is its rank; Llama 3's and 4's
// tokenizer.model are such files too. They hold neither the pattern that cuts text nor the special tokens: those come
// from the kind, which the file's name (cl100k_base.tiktoken) or its number of tokens tells.
//
//   const auto tokenizer = load_tiktoken("cl100k_base.tiktoken");
//   const auto own = load_tiktoken("mine.tiktoken", "llama3");
//
// Ids are those of tiktoken: of the pairs in a pretoken that join to a token the one of the lowest id merges first, and
// a pretoken that is a token is that token. Bytes that are no UTF-8 are encoded as they are.
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
  size_t tokens;  // lines of the file
  struct Special {
    std::string name;
    TokenId id;
  };
  // Of a file with so many tokens.
  std::vector<Special> (*special)(size_t tokens);
  std::string_view begin_of_text;  // a special token, or ""
};

// r50k_base (gpt2), p50k_base, p50k_edit, cl100k_base, o200k_base, llama3, llama4, qwen.
[[nodiscard]] std::vector<TiktokenKind> tiktoken_kinds();

// `kind` empty: by name or number of tokens. Error: a line that is no token, two tokens of the same bytes or id, a byte
// without a token; a kind that is not known or cannot be told (then says which there are).
[[nodiscard]] std::unique_ptr<Tokenizer> load_tiktoken(const std::filesystem::path& path, std::string_view kind = {});

// Does a file begin so? A base64 word, a space and a number.
[[nodiscard]] bool looks_like_tiktoken(std::string_view head);

// The tokens of the file, with the merges that its ranks amount to. `origin` begins the messages.
[[nodiscard]] BpeModel parse_tiktoken(std::string_view text, std::string_view origin);

}  // namespace partita::internal
