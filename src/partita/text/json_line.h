// Extracts texts from one JSON line with simdjson.
//
//   JsonLineParser parser({"title", "text"}, InvalidUtf8::error);
//   if (auto problem = parser.parse(line)) report(*problem); else use(parser.texts());
//
// If a key appears twice, the last value counts, as in Python. A lone surrogate (\ud800) is an error. With
// InvalidUtf8::keep, string bytes that are not UTF-8 are passed through.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/text/text_input.h"

namespace partita::internal {

class JsonLineParser {
 public:
  struct Problem {
    size_t byte;  // offset in the line
    std::string what;
  };

  // `key_remedy` is appended to the message about a missing key.
  JsonLineParser(std::vector<std::string> keys, InvalidUtf8 policy, std::string key_remedy = {});
  JsonLineParser(JsonLineParser&&) noexcept;
  ~JsonLineParser();

  // Empty on success: texts() are then the values of the keys, until the next parse.
  [[nodiscard]] std::optional<Problem> parse(std::string_view line);
  [[nodiscard]] std::span<const std::string> texts() const { return texts_; }

 private:
  struct Simdjson;
  [[nodiscard]] std::optional<Problem> parse_valid(std::string_view line);
  [[nodiscard]] std::optional<Problem> parse_keeping_bytes(std::string_view line);
  void unescape_keeping_bytes(std::string_view raw, std::string& out);

  std::vector<std::string> keys_;
  std::string key_remedy_;
  InvalidUtf8 policy_;
  std::vector<std::string> texts_;
  std::unique_ptr<Simdjson> simdjson_;
};

// "invalid UTF-8 (0xFF): ...": the message for such a byte in JSON lines and text.
[[nodiscard]] std::string invalid_utf8_message(char byte);

}  // namespace partita::internal
