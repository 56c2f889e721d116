// The normalizers of tokenizer.json, applied to a text before it is split.
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
  std::string text;  // prepended to non-empty text
};
struct ReplaceStep {
  Matcher matcher;
  std::string content;
};
struct StripStep {  // strips white space at the ends
  bool left, right;
};
struct StripAccentsStep {};  // removes is_mark() characters; preceded by NFD
using NormalizerStep = std::variant<NormalForm, PrependStep, ReplaceStep, StripStep, StripAccentsStep>;

struct Normalizer {
  std::vector<NormalizerStep> steps;
  std::string origin = "normalizer";  // for error messages

  // Upper bound for the result of all steps. Normal forms expand at most elevenfold, and other steps of real
  // vocabularies less.
  [[nodiscard]] static constexpr size_t most_bytes(size_t text) { return 16 * text + (size_t{64} << 10); }

  // Error: the result exceeds most_bytes.
  [[nodiscard]] std::string apply(std::string_view text) const;
  // The same without copying unchanged text: returns `text` itself, or a view of one of the two buffers.
  struct Buffers {
    std::string now, next;
  };
  [[nodiscard]] std::string_view apply(std::string_view text, Buffers& buffers) const;
};

}  // namespace partita::internal
