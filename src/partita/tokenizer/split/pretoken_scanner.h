// Finds many pretokens of a text at a time; used for encoding.
//
//   PretokenScanner scanner(SplitPattern::gpt2);        // one per thread
//   for (size_t begin = 0; begin < text.size();) {
//     const PretokenScanner::Window window = scanner.scan(text, begin);
//     for (size_t i = 0; i + 1 < window.bounds.size(); ++i) use(window.base, window.bounds[i], window.bounds[i + 1]);
//     if (window.bounds.empty()) use(text.data(), begin, window.next);
//     begin = window.next;
//   }
//
// Yields the same pretokens as pretoken_end() (splitter.h), for any bytes. For the patterns of GPT-2, cl100k, Llama 3
// and Qwen they are computed with shifts and additions of class masks (class_masks-inl.h), 4 KB of text at a time; for
// other patterns one by one.
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
  static constexpr size_t kWindow = 4096;  // bytes of text per scan
  static constexpr size_t kRoom = 64;      // bytes that are readable from the start of any pretoken

  struct Window {
    const char* base;                  // the text from `begin` on, or a copy of it
    std::span<const uint32_t> bounds;  // pretoken i is base[bounds[i]] .. base[bounds[i + 1] - 1]
    size_t next;                       // offset in the text where the next window begins
  };

  explicit PretokenScanner(SplitPattern pattern);
  // The first pretokens from `begin` < text.size(), which must be the start of a pretoken. Empty bounds: a single
  // pretoken text[begin] .. text[next - 1] that exceeds a window. Valid until the next scan and as long as the text.
  [[nodiscard]] Window scan(std::string_view text, size_t begin);

 private:
  [[nodiscard]] size_t scan_one_by_one(std::string_view text, size_t begin, size_t limit);

  SplitPattern pattern_;
  std::vector<char> tail_;        // copy of the end of a text, with room to read past it
  std::vector<uint32_t> bounds_;  // capacity for one window
};

}  // namespace partita::internal
