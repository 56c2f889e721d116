// Converts problems in chunks to file positions: line numbers are known only once the preceding chunks are counted.
//
//   LineCounter lines;
//   for (chunks in order) {
//     for (const TextProblem& problem : summary.problems) report(lines.place(file, first_byte, problem));
//     lines.leave(first_byte, summary.lines);
//   }
#pragma once
#include <cstdint>
#include <string>

#include "partita/base/error.h"
#include "partita/text/chunk_parser.h"

namespace partita::internal {

class LineCounter {
 public:
  // "file:line: byte N: what" for a problem in the chunk that begins at first_byte.
  [[nodiscard]] std::string place(const std::string& file, int64_t first_byte, const TextProblem& problem) {
    enter(first_byte);
    return fmt::format("{}:{}: byte {}: {}", file, lines_ + problem.line + 1, problem.byte, problem.what);
  }
  // Records the number of lines of that chunk.
  void leave(int64_t first_byte, int64_t lines) {
    enter(first_byte);
    lines_ += lines;
  }

 private:
  void enter(int64_t first_byte) {
    if (first_byte == 0) lines_ = 0;
  }
  int64_t lines_ = 0;
};

}  // namespace partita::internal
