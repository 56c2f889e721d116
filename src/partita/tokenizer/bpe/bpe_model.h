// A byte-level BPE model: tokens and ranked merges, as loaded from a file or learned by training (R. Sennrich et al.,
// "Neural machine translation of rare words with subword units", ACL 2016; bytes: GPT-2, 2019).
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
  TokenId left, right;  // the pair that merges
  TokenId result;       // the token whose bytes are those of left and right, concatenated

  bool operator==(const BpeMerge&) const = default;
};

// What determines merge order in a pretoken: the lowest rank first, the leftmost on ties.
enum class MergeRank : uint8_t {
  order,   // rank = index in `merges`: files with a list of merges
  result,  // rank = resulting id: tiktoken, where all pairs that produce the same bytes tie
};

struct BpeModel {
  std::vector<std::string> tokens;  // bytes per id; special tokens have their name; empty: unused id
  std::vector<BpeMerge> merges;     // sorted by rank
  std::vector<TokenId> special;     // ids that ordinary text never encodes to, sorted
  MergeRank rank = MergeRank::order;

  [[nodiscard]] int64_t vocab_size() const { return static_cast<int64_t>(tokens.size()); }
};

// Whether every byte has a token. Bytes that never occur in UTF-8 (C0, C1, F5 to FF) may lack one, as in GPT-NeoX's
// vocabulary; then only well-formed text can be encoded, which pipeline.h ensures.
[[nodiscard]] bool has_all_bytes(const BpeModel& model);

// Error (begins with `origin`, a file name): any other byte lacks a token, so some text could not be encoded; a merge
// has an id outside the vocabulary or a result that is not the concatenation of its parts; two tokens have the same
// bytes.
void validate(const BpeModel& model, std::string_view origin);

// Token bytes -> id, without special tokens. The keys are views into `model`.
[[nodiscard]] std::unordered_map<std::string_view, TokenId> token_ids(const BpeModel& model);

}  // namespace partita::internal
