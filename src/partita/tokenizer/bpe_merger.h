// Merges the bytes of one pretoken: short ones in small arrays, long ones in a linked list with a heap of the pairs
// that may merge.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "partita/tokenizer/merge_table.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

class BpeMerger {
 public:
  // byte_tokens: the token of each byte. `table` is referred to.
  BpeMerger(const MergeTable& table, const std::array<TokenId, 256>& byte_tokens);
  // Appends the ids of `pretoken`. The buffers are kept for the next.
  void merge(std::string_view pretoken, std::vector<TokenId>& ids);

 private:
  void merge_short(std::string_view pretoken, std::vector<TokenId>& ids) const;
  void merge_long(std::string_view pretoken, std::vector<TokenId>& ids);
  [[nodiscard]] TokenId byte_token(char byte) const { return byte_tokens_[static_cast<unsigned char>(byte)]; }

  struct Node {  // a token of the list; `before` and `after` are indices, kNone at the ends
    TokenId id;
    uint32_t before, after;
  };
  const MergeTable* table_;
  std::array<TokenId, 256> byte_tokens_;
  std::vector<uint32_t> byte_pairs_;  // rank of each pair of bytes
  std::vector<Node> nodes_;
  std::vector<uint64_t> heap_;  // rank, then place of the left token
};

}  // namespace partita
