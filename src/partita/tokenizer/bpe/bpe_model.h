// What a byte-level BPE tokenizer is made of: tokens and ranked merges, as a file holds them or training makes them
// (R. Sennrich et al., "Neural machine translation of rare words with subword units", ACL 2016; bytes: GPT-2, 2019).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

struct BpeMerge {
  TokenId left, right;  // become
  TokenId result;       // the token whose bytes are theirs, joined

  bool operator==(const BpeMerge&) const = default;
};

// Which merge of a pretoken comes next: the one of the lowest rank, the leftmost of equals.
enum class MergeRank : uint8_t {
  order,   // its place in `merges`: files with a list of merges
  result,  // the id that it makes: tiktoken, where all pairs that join to the same bytes are equals
};

struct BpeModel {
  std::vector<std::string> tokens;  // the bytes of each id; for a special token its name; empty: no token has this id
  std::vector<BpeMerge> merges;     // ascending rank
  std::vector<TokenId> special;     // ids that no text encodes to, ascending
  MergeRank rank = MergeRank::order;

  [[nodiscard]] int64_t vocab_size() const { return static_cast<int64_t>(tokens.size()); }
};

// Whether each byte has a token. Those that occur in no UTF-8 (C0, C1, F5 to FF) may lack one, as in GPT-NeoX's
// vocabulary: then only well-formed text can be encoded, which pipeline.h sees to.
[[nodiscard]] bool has_all_bytes(const BpeModel& model);

// Error (begins with `origin`, a file name): another byte without a token, so that some text could not be encoded; a
// merge with an id outside the vocabulary or a result that is not its parts joined; two tokens of the same bytes.
void validate(const BpeModel& model, std::string_view origin);

// Token bytes -> id, special tokens left out. The views are into `model`.
[[nodiscard]] std::unordered_map<std::string_view, TokenId> token_ids(const BpeModel& model);

}  // namespace partita::internal
