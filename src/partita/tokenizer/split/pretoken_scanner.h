// Finds the pretokens of a text many at a time: what encoding runs on.
//
//   PretokenScanner scanner(SplitPattern::gpt2);        // one a thread
//   for (size_t begin = 0; begin < text.size();) {
//     const PretokenScanner::Window window = scanner.scan(text, begin);
//     for (size_t i = 0; i + 1 < window.bounds.size(); ++i) use(window.base, window.bounds[i], window.bounds[i + 1]);
//     if (window.bounds.empty()) use(text.data(), begin, window.next);
//     begin = window.next;
//   }
//
// The same pretokens as pretoken_end() (splitter.h), for any bytes. For the patterns of GPT-2, cl100k, Llama 3 and Qwen
// they come out of shifts and sums of class masks (class_masks-inl.h), 4 KB of text at once; the others one by one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "partita/tokenizer/split/splitter.h"

namespace partita::internal {

class PretokenScanner {
 public:
  static constexpr size_t kWindow = 4096;  // bytes of text scanned at once
  static constexpr size_t kRoom = 64;      // bytes that may be read from the beginning of any pretoken

  struct Window {
    const char* base;                  // of the text from `begin` on, perhaps a copy
    std::span<const uint32_t> bounds;  // pretoken i is base[bounds[i]] .. base[bounds[i + 1] - 1]
    size_t next;                       // where in the text the next window begins
  };

  explicit PretokenScanner(SplitPattern pattern);
  // The first pretokens from one's beginning on, begin < text.size(). No bounds: one that is too long for a window, all
  // of text[begin] .. text[next - 1]. Valid until the next scan and while the text is.
  [[nodiscard]] Window scan(std::string_view text, size_t begin);

 private:
  [[nodiscard]] size_t scan_one_by_one(std::string_view text, size_t begin, size_t limit);

  SplitPattern pattern_;
  std::vector<char> tail_;        // the end of a text, with room to read past it
  std::vector<uint32_t> bounds_;  // room for those of a window
};

}  // namespace partita::internal
