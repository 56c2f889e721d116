// The documents of a chunk, and what is wrong with those that are no good.
//
//   ChunkParser parser(options);                         // one a thread
//   ChunkSummary summary = parser.parse(chunk, false, [&](size_t key, std::string_view text) { encode(key, text); });
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partita/text/json_line.h"
#include "partita/text/text_chunks.h"
#include "partita/text/text_input.h"

namespace partita::internal {

// Why a document is no good: where, and a sentence.
struct TextProblem {
  int64_t line;  // from 0, within the chunk
  int64_t byte;  // within the file
  std::string what;
  bool too_long = false;  // longer than TextInputOptions allow: no reason to stop
};

struct ChunkSummary {
  int64_t lines = 0;
  std::vector<TextProblem> problems;  // in order; their documents were left out
};

// Calls use(key index, text) for each document of the chunk, in order; a JSON line gives one for each key, a text
// document key 0. `text` may be empty and is valid during the call. Stops at the first problem if `stop_at_problem`,
// but for documents that are too long, which are left out.
class ChunkParser {
 public:
  using Use = std::function<void(size_t key, std::string_view text)>;

  explicit ChunkParser(TextInputOptions options);
  ChunkSummary parse(const TextChunk& chunk, bool stop_at_problem, const Use& use);

 private:
  [[nodiscard]] TextProblem too_long(int64_t line, int64_t byte, int64_t bytes, const TextChunk& chunk) const;
  void parse_json(const TextChunk& chunk, bool stop_at_problem, const Use& use, ChunkSummary& summary);
  void parse_text(const TextChunk& chunk, bool stop_at_problem, const Use& use, ChunkSummary& summary);

  TextInputOptions options_;
  JsonLineParser json_;
};

}  // namespace partita::internal
