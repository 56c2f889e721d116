// Prompts with the completions that a model is to learn, from JSON lines:
//
//   {"prompt": "Translate to French: cheese ->", "completion": " fromage"}
//
//   const PromptExamples examples = read_prompts("train.jsonl", *tokenizer, {});
//
// Prompt and completion are tokenized each by itself, as a prompt is when text is generated (tokenizer/prompt_text.h):
// a completion that shall begin with a space has it. The end of the document follows the completion, if the tokenizer
// has such a token; it is an empty prompt too, as in generation. Other keys of a line mean nothing.
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
  int workers = 1;  // threads that tokenize
};

// In the order of the file, in memory.
struct PromptExamples {
  std::filesystem::path file;           // for messages
  std::vector<TokenId> ids;             // example after example, each prompt, then completion
  std::vector<int64_t> begins = {0};    // of each example in `ids`; one more for the end
  std::vector<int64_t> prompt_tokens;   // of each example; the tokens behind them are to be learnt
  std::optional<UnreadMarkers> unread;  // what looks like a special token and was read as ordinary text

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(prompt_tokens.size()); }
  [[nodiscard]] std::span<const TokenId> tokens(int64_t example) const {
    const int64_t begin = begins[static_cast<size_t>(example)], end = begins[static_cast<size_t>(example) + 1];
    return std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
};

// Of `count` tokens those that are predicted and counted: behind the prompt, and not the first of all.
[[nodiscard]] constexpr int64_t counted_tokens(int64_t count, int64_t prompt_tokens) {
  const int64_t before = prompt_tokens > 1 ? prompt_tokens : 1;
  return count > before ? count - before : 0;
}

// The same for any number of workers. Error: a line that is no such object (file, line, byte), an example without a
// token to predict, a file without examples, one key for both.
[[nodiscard]] PromptExamples read_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                          const PromptOptions& options);

}  // namespace partita
