#include "partita/tokenizer/bpe/bpe_merger.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr size_t kShort = 32;     // bytes up to which scanning all pairs beats a heap
constexpr size_t kMedium = 4096;  // bytes up to which a heap beats per-rank lists
constexpr uint32_t kNone = ~uint32_t{0};
constexpr TokenId kGone = -1;

}  // namespace

void BpeMerger::merge(std::string_view pretoken, std::vector<TokenId>& ids) {
  if (pretoken.size() <= kShort) return merge_short(pretoken, ids);
  size_t begin = 0;
  for (size_t i = 1; i < pretoken.size(); ++i) {
    if (table_->joins(pretoken[i - 1], pretoken[i])) continue;
    merge_part(pretoken.substr(begin, i - begin), ids);
    begin = i;
  }
  merge_part(pretoken.substr(begin), ids);
}

void BpeMerger::merge_part(std::string_view part, std::vector<TokenId>& ids) {
  if (part.size() <= kShort) return merge_short(part, ids);
  if (part.size() <= kMedium) return merge_list(part, heap_, ids);
  if (part.size() >= kNone) {
    fail("a piece of {} bytes to merge as one, fewer than {} expected: cut the document", part.size(), kNone);
  }
  RankLists lists(table_->ranks());
  merge_list(part, lists, ids);
  nodes_ = {};  // release large buffers
}

void BpeMerger::merge_short(std::string_view pretoken, std::vector<TokenId>& ids) const {
  TokenId tokens[kShort];
  uint32_t ranks[kShort];  // rank of tokens i and i + 1
  size_t count = pretoken.size();
  if (count == 0) return;
  for (size_t i = 0; i < count; ++i) tokens[i] = table_->byte_token(pretoken[i]);
  for (size_t i = 0; i + 1 < count; ++i) {
    ranks[i] = table_->byte_rank(pretoken[i], pretoken[i + 1]);
  }
  while (count > 1) {
    uint32_t least = ranks[0];
    size_t at = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      at = ranks[i] < least ? i : at;
      least = std::min(least, ranks[i]);
    }
    if (least == MergeTable::kNone) break;
    tokens[at] = table_->result(least);
    --count;
    for (size_t i = at + 1; i < count; ++i) tokens[i] = tokens[i + 1];
    for (size_t i = at + 1; i + 1 < count; ++i) ranks[i] = ranks[i + 1];
    if (at > 0) ranks[at - 1] = table_->rank(tokens[at - 1], tokens[at]);
    if (at + 1 < count) ranks[at] = table_->rank(tokens[at], tokens[at + 1]);
  }
  ids.insert(ids.end(), tokens, tokens + count);
}

template <class Queue>
void BpeMerger::merge_list(std::string_view pretoken, Queue& queue, std::vector<TokenId>& ids) {
  const auto count = static_cast<uint32_t>(pretoken.size());
  // Rank of the token at a position and the next one.
  const auto rank_at = [this](uint32_t at) {
    const Node& node = nodes_[at];
    return node.after == kNone ? MergeTable::kNone : table_->rank(node.id, nodes_[node.after].id);
  };
  const auto push = [&](uint32_t at) {
    if (const uint32_t rank = rank_at(at); rank != MergeTable::kNone) queue.push(rank, at);
  };
  nodes_.resize(count);
  for (uint32_t i = 0; i < count; ++i)
    nodes_[i] = {table_->byte_token(pretoken[i]), i - 1, i + 1 < count ? i + 1 : kNone};
  for (uint32_t i = 0; i < count; ++i) push(i);

  while (const auto next = queue.pop()) {
    Node& left = nodes_[next->place];
    // One of the two has merged with another token since; the pair now at this position has its own queue entry.
    if (left.id == kGone || rank_at(next->place) != next->rank) continue;
    Node& right = nodes_[left.after];
    left.id = table_->result(next->rank);
    left.after = right.after;
    right.id = kGone;
    if (left.after != kNone) nodes_[left.after].before = next->place;
    if (left.before != kNone) push(left.before);
    push(next->place);
  }
  for (uint32_t i = 0; i != kNone; i = nodes_[i].after) ids.push_back(nodes_[i].id);
}

}  // namespace partita::internal
