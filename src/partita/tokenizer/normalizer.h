// The normalizers of tokenizer.json: what is done to a text before it is cut.
//
//   const Normalizer normalizer{{PrependStep{"▁"}, ReplaceStep{Matcher::text(" "), "▁"}}};
//   normalizer.apply("a b") == "▁a▁b"
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "partita/tokenizer/split/pre_tokenizer.h"
#include "partita/unicode/normal_forms.h"

namespace partita::internal {

struct PrependStep {
  std::string text;  // in front of a text that is not empty
};
struct ReplaceStep {
  Matcher matcher;
  std::string content;
};
struct StripStep {  // white space at the ends
  bool left, right;
};
struct StripAccentsStep {};  // is_mark(): NFD comes before
using NormalizerStep = std::variant<NormalForm, PrependStep, ReplaceStep, StripStep, StripAccentsStep>;

struct Normalizer {
  std::vector<NormalizerStep> steps;
  std::string origin = "normalizer";  // for messages

  // What the steps may make of a text of so many bytes. Normal forms make eleven times as much at most, and what
  // vocabularies do beside them less.
  [[nodiscard]] static constexpr size_t most_bytes(size_t text) { return 16 * text + (size_t{64} << 10); }

  // Error: the text becomes longer than most_bytes.
  [[nodiscard]] std::string apply(std::string_view text) const;
  // The same without a copy where nothing changes: `text` itself, or a view of one of the two buffers.
  struct Buffers {
    std::string now, next;
  };
  [[nodiscard]] std::string_view apply(std::string_view text, Buffers& buffers) const;
};

}  // namespace partita::internal
