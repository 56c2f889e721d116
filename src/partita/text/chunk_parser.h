// Extracts the documents of a chunk and reports problems with bad ones.
//
//   ChunkParser parser(options);                         // one per thread
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

// A problem with a document: its location and a message.
struct TextProblem {
  int64_t line;  // from 0, relative to the chunk
  int64_t byte;  // offset in the file
  std::string what;
  bool too_long = false;  // longer than TextInputOptions allow: not a reason to stop
};

struct ChunkSummary {
  int64_t lines = 0;
  std::vector<TextProblem> problems;  // in order; their documents were dropped
};

// Calls use(key index, text) for each document of the chunk, in order: once per key for a JSON line, with key 0 for a
// text document. `text` may be empty and is valid during the call. With `stop_at_problem`, stops at the first problem
// other than a document that is too long, which is only dropped.
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
