// Merges the bytes of one pretoken: a linked list of tokens in an array, and a heap of the pairs that may merge.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "partita/tokenizer/tokenizer.h"

namespace partita {

class ByteLevelBpe;

class BpeMerger {
 public:
  explicit BpeMerger(const ByteLevelBpe& tokenizer) : tokenizer_(&tokenizer) {}
  // Appends the ids of `pretoken`. The buffers are kept for the next.
  void merge(std::string_view pretoken, std::vector<TokenId>& ids);

 private:
  struct Node {  // a token of the list; `before` and `after` are indices, kNone at the ends
    TokenId id;
    int64_t before, after;
  };
  struct Candidate {  // a pair whose left token stands at `at`
    int32_t rank;
    TokenId result;
    int64_t at;
  };
  void add_candidate(int64_t at);

  const ByteLevelBpe* tokenizer_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace partita
