// Training examples of prompts and completions, from JSON lines:
//
//   {"prompt": "Translate to French: cheese ->", "completion": " fromage"}
//
//   const PromptExamples examples = read_prompts("train.jsonl", *tokenizer, {});
//
// Prompt and completion are tokenized separately, as in generation (tokenizer/prompt_text.h), so a completion that
// should begin with a space must contain it. The end-of-document token, if the tokenizer has one, is appended to the
// completion; it also stands for an empty prompt, as in generation. Other keys are ignored.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partita/tokenizer/prompt_text.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

struct PromptOptions {
  std::string prompt_key = "prompt", completion_key = "completion";
  PromptSpecials specials;
  int workers = 1;  // tokenizer threads
};

// All examples in file order, held in memory.
struct PromptExamples {
  std::filesystem::path file;           // for error messages
  std::vector<TokenId> ids;             // all examples concatenated, each prompt followed by its completion
  std::vector<int64_t> begins = {0};    // offset of each example in `ids`; one more for the end
  std::vector<int64_t> prompt_tokens;   // per example; the tokens after them are to be learned
  std::optional<UnreadMarkers> unread;  // texts that look like special tokens but were read as ordinary text

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(prompt_tokens.size()); }
  [[nodiscard]] std::span<const TokenId> tokens(int64_t example) const {
    const int64_t begin = begins[static_cast<size_t>(example)], end = begins[static_cast<size_t>(example) + 1];
    return std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
};

// How many of `count` tokens are predicted and carry loss: those after the prompt, except the very first token.
[[nodiscard]] constexpr int64_t counted_tokens(int64_t count, int64_t prompt_tokens) {
  const int64_t before = prompt_tokens > 1 ? prompt_tokens : 1;
  return count > before ? count - before : 0;
}

// Independent of the number of workers. Error: an invalid line (file, line, byte), an example without a token to
// predict, a file without examples, the same key for both.
[[nodiscard]] PromptExamples read_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                          const PromptOptions& options);

}  // namespace partita
