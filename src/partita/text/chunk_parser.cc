#include "partita/text/chunk_parser.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/text/text_lines.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Start of a chunk's text: after the byte order mark at the beginning of a file.
size_t text_begin(const TextChunk& chunk) {
  return chunk.first_byte == 0 && chunk.text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

}  // namespace

ChunkParser::ChunkParser(TextInputOptions options)
    : options_(std::move(options)), json_(options_.json_keys, options_.invalid_utf8, options_.key_remedy) {}

ChunkSummary ChunkParser::parse(const TextChunk& chunk, bool stop_at_problem, const Use& use) {
  ChunkSummary summary;
  if (chunk.json) {
    parse_json(chunk, stop_at_problem, use, summary);
  } else {
    parse_text(chunk, stop_at_problem, use, summary);
  }
  if (chunk.skipped_bytes > 0) {
    summary.problems.push_back(too_long(summary.lines, chunk.first_byte + static_cast<int64_t>(chunk.text.size()),
                                        chunk.skipped_bytes, chunk));
    summary.lines += chunk.skipped_lines;
  }
  return summary;
}

TextProblem ChunkParser::too_long(int64_t line, int64_t byte, int64_t bytes, const TextChunk& chunk) const {
  return {line, byte,
          fmt::format("a {} of {}, at most {} expected", chunk.json ? "line" : "document", human_bytes(bytes),
                      human_bytes(options_.max_bytes(chunk.json, chunk.mapped))),
          true};
}

void ChunkParser::parse_json(const TextChunk& chunk, bool stop_at_problem, const Use& use, ChunkSummary& summary) {
  for (size_t at = text_begin(chunk); at < chunk.text.size(); ++summary.lines) {
    const size_t end = line_end(chunk.text, at);
    const std::string_view line = chunk.text.substr(at, end - at);
    if (is_blank(line)) {
      at = end;
      continue;
    }
    if (static_cast<int64_t>(line.size()) > options_.max_line_bytes) {
      summary.problems.push_back(too_long(summary.lines, chunk.first_byte + static_cast<int64_t>(at),
                                          static_cast<int64_t>(line.size()), chunk));
    } else if (auto problem = json_.parse(line)) {
      summary.problems.push_back(
          {summary.lines, chunk.first_byte + static_cast<int64_t>(at + problem->byte), std::move(problem->what)});
      if (stop_at_problem) return;
    } else {
      for (size_t key = 0; key < json_.texts().size(); ++key) use(key, json_.texts()[key]);
    }
    at = end;
  }
}

void ChunkParser::parse_text(const TextChunk& chunk, bool stop_at_problem, const Use& use, ChunkSummary& summary) {
  // Emits one document; returns false if it has a problem.
  const auto finish = [&](size_t begin, size_t end, int64_t first_line) {
    const std::string_view text = chunk.text.substr(begin, end - begin);
    if (static_cast<int64_t>(text.size()) > options_.max_bytes(false, chunk.mapped)) {
      summary.problems.push_back(too_long(first_line, chunk.first_byte + static_cast<int64_t>(begin),
                                          static_cast<int64_t>(text.size()), chunk));
      return true;
    }
    const auto invalid = options_.invalid_utf8 == InvalidUtf8::keep ? std::optional<size_t>() : find_invalid_utf8(text);
    if (!invalid) {
      use(0, text);
      return true;
    }
    if (options_.invalid_utf8 == InvalidUtf8::replace) {
      use(0, replace_invalid_utf8(text));
      return true;
    }
    const auto lines_before = std::count(text.begin(), text.begin() + static_cast<int64_t>(*invalid), '\n');
    summary.problems.push_back({first_line + lines_before, chunk.first_byte + static_cast<int64_t>(begin + *invalid),
                                invalid_utf8_message(text[*invalid])});
    return false;
  };
  size_t begin = text_begin(chunk);  // start of the document
  int64_t first_line = 0;
  if (options_.separator) {
    for (size_t at = begin; at < chunk.text.size();) {
      const size_t end = line_end(chunk.text, at);
      ++summary.lines;
      if (line_content(chunk.text.substr(at, end - at)) == *options_.separator) {
        if (!finish(begin, at, first_line) && stop_at_problem) return;
        begin = end;
        first_line = summary.lines;
      }
      at = end;
    }
    // A separator at the very end is not followed by an empty document.
    if (begin < chunk.text.size()) finish(begin, chunk.text.size(), first_line);
    return;
  }
  if (chunk.skipped_bytes > 0) return;  // that was the file's only document
  finish(begin, chunk.text.size(), 0);
}

}  // namespace partita::internal
