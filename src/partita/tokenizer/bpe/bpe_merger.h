// Merges the bytes of one pretoken: short ones in small arrays, longer ones in a linked list with a queue of candidate
// pairs.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/merge_table.h"
#include "partita/tokenizer/bpe/pair_queues.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& table) : table_(&table) {}
  // Appends the ids of `pretoken`. Buffers are reused between calls.
  void merge(std::string_view pretoken, std::vector<TokenId>& ids);

 private:
  void merge_part(std::string_view part, std::vector<TokenId>& ids);
  void merge_short(std::string_view pretoken, std::vector<TokenId>& ids) const;
  template <class Queue>
  void merge_list(std::string_view pretoken, Queue& queue, std::vector<TokenId>& ids);

  struct Node {  // token in the linked list; `before` and `after` are indices, kNone at the ends
    TokenId id;
    uint32_t before, after;
  };
  const MergeTable* table_;
  std::vector<Node> nodes_;
  PairHeap heap_;
};

}  // namespace partita::internal
