#include "partita/data/prompt_examples.h"

#include <memory>
#include <utility>

#include "partita/base/error.h"
#include "partita/text/chunk_parser.h"
#include "partita/text/line_counter.h"
#include "partita/text/ordered_parallel.h"
#include "partita/text/text_chunks.h"

namespace partita {
using namespace internal;
namespace {

struct Worker {
  ChunkParser parser;
  PromptEncoder encoder;
};

struct TokenizedExamples {
  int64_t first_byte = 0;
  ChunkSummary summary;
  std::vector<TokenId> ids;
  std::vector<int64_t> ends;           // end of each example in ids
  std::vector<int64_t> prompt_tokens;  // per example
};

TokenizedExamples tokenize(Worker& worker, const TextChunk& chunk, std::optional<TokenId> end_of_document) {
  TokenizedExamples result{.first_byte = chunk.first_byte};
  size_t begin = 0;
  result.summary = worker.parser.parse(chunk, true, [&](size_t key, std::string_view text) {
    if (key == 0) {
      worker.encoder.prompt(text, result.ids);
      if (end_of_document && result.ids.size() == begin) result.ids.push_back(*end_of_document);
      result.prompt_tokens.push_back(static_cast<int64_t>(result.ids.size() - begin));
    } else {
      worker.encoder.completion(text, result.ids);
      if (end_of_document) result.ids.push_back(*end_of_document);
      result.ends.push_back(static_cast<int64_t>(result.ids.size()));
      begin = result.ids.size();
    }
  });
  return result;
}

}  // namespace

PromptExamples read_prompts(const std::filesystem::path& file, const Tokenizer& tokenizer,
                            const PromptOptions& options) {
  if (options.prompt_key == options.completion_key) {
    fail("\"{}\" is the key of both prompt and completion: two keys expected", options.prompt_key);
  }
  if (options.workers < 1) fail("{} workers, at least 1 expected", options.workers);
  const TextInputOptions input{
      .format = TextFormat::json_lines,
      .json_keys = {options.prompt_key, options.completion_key},
      .key_remedy =
          "set data.prompt_key and data.completion_key (--prompt-key, --completion-key) if these are texts; "
          "lists of chat messages have to be converted to prompts and completions first"};
  std::vector<Worker> workers;
  for (int i = 0; i < options.workers; ++i)
    workers.push_back({ChunkParser(input), PromptEncoder(tokenizer, options.specials)});

  PromptExamples examples{.file = file};
  ChunkReader reader({file}, input);
  LineCounter lines;
  ordered_parallel(
      options.workers, [&] { return reader.next(); },
      [&](int worker, const TextChunk& chunk) {
        return tokenize(workers[static_cast<size_t>(worker)], chunk, tokenizer.end_of_document());
      },
      [&](const TokenizedExamples& chunk) {
        for (const TextProblem& problem : chunk.summary.problems) {
          throw Error(lines.place(file, chunk.first_byte, problem));
        }
        lines.leave(chunk.first_byte, chunk.summary.lines);
        const int64_t before = examples.begins.back();
        for (const int64_t end : chunk.ends) examples.begins.push_back(before + end);
        examples.ids.insert(examples.ids.end(), chunk.ids.begin(), chunk.ids.end());
        examples.prompt_tokens.insert(examples.prompt_tokens.end(), chunk.prompt_tokens.begin(),
                                      chunk.prompt_tokens.end());
      });
  for (const Worker& worker : workers) examples.unread = joined(std::move(examples.unread), worker.encoder.unread());
  if (examples.size() == 0) {
    fail("{}: no examples: lines such as {{\"{}\": \"...\", \"{}\": \"...\"}} expected", file.string(),
         options.prompt_key, options.completion_key);
  }
  for (int64_t i = 0; i < examples.size(); ++i) {
    const auto count = static_cast<int64_t>(examples.tokens(i).size());
    if (counted_tokens(count, examples.prompt_tokens[static_cast<size_t>(i)]) == 0) {
      fail("{}: example {}: nothing to predict: the completion is empty{}", file.string(), i + 1,
           count == 1 ? " but for the very first token" : "");
    }
  }
  return examples;
}

}  // namespace partita
