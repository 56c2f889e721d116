#include "partita/tokenizer/bpe_merger.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr size_t kShort = 32;  // up to here looking through all pairs beats a heap
constexpr uint32_t kNone = ~uint32_t{0};
constexpr TokenId kGone = -1;

}  // namespace

BpeMerger::BpeMerger(const MergeTable& table, const std::array<TokenId, 256>& byte_tokens)
    : table_(&table), byte_tokens_(byte_tokens), byte_pairs_(size_t{1} << 16) {
  for (size_t left = 0; left < 256; ++left) {
    for (size_t right = 0; right < 256; ++right) {
      byte_pairs_[left << 8 | right] = table_->rank(byte_tokens_[left], byte_tokens_[right]);
    }
  }
}

void BpeMerger::merge(std::string_view pretoken, std::vector<TokenId>& ids) {
  if (pretoken.size() <= kShort) return merge_short(pretoken, ids);
  merge_long(pretoken, ids);
}

void BpeMerger::merge_short(std::string_view pretoken, std::vector<TokenId>& ids) const {
  TokenId tokens[kShort];
  uint32_t ranks[kShort];  // of token i and the next
  size_t count = pretoken.size();
  if (count == 0) return;
  for (size_t i = 0; i < count; ++i) tokens[i] = byte_token(pretoken[i]);
  for (size_t i = 0; i + 1 < count; ++i) {
    const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(pretoken[at])); };
    ranks[i] = byte_pairs_[byte(i) << 8 | byte(i + 1)];
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

void BpeMerger::merge_long(std::string_view pretoken, std::vector<TokenId>& ids) {
  if (pretoken.size() >= kNone) {
    fail("a piece of {} bytes to merge as one, fewer than {} expected: cut the document", pretoken.size(), kNone);
  }
  const auto count = static_cast<uint32_t>(pretoken.size());
  const auto candidate = [this](uint32_t at) -> std::optional<uint64_t> {
    const Node& node = nodes_[at];
    if (node.after == kNone) return std::nullopt;
    const uint32_t rank = table_->rank(node.id, nodes_[node.after].id);
    if (rank == MergeTable::kNone) return std::nullopt;
    return uint64_t{rank} << 32 | at;
  };
  nodes_.resize(count);
  heap_.clear();
  for (uint32_t i = 0; i < count; ++i) nodes_[i] = {byte_token(pretoken[i]), i - 1, i + 1 < count ? i + 1 : kNone};
  for (uint32_t i = 0; i < count; ++i) {
    if (const auto pair = candidate(i)) heap_.push_back(*pair);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater());

  while (!heap_.empty()) {
    const uint64_t next = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater());
    heap_.pop_back();
    const auto at = static_cast<uint32_t>(next);
    Node& left = nodes_[at];
    // One of the two has merged with another since: the pair that stands here now has a candidate of its own.
    if (left.id == kGone || candidate(at) != next) continue;
    Node& right = nodes_[left.after];
    left.id = table_->result(static_cast<uint32_t>(next >> 32));
    left.after = right.after;
    right.id = kGone;
    if (left.after != kNone) nodes_[left.after].before = at;
    for (const uint32_t changed : {left.before, at}) {
      if (changed == kNone) continue;
      if (const auto pair = candidate(changed)) {
        heap_.push_back(*pair);
        std::push_heap(heap_.begin(), heap_.end(), std::greater());
      }
    }
  }
  for (uint32_t i = 0; i != kNone; i = nodes_[i].after) ids.push_back(nodes_[i].id);
}

}  // namespace partita
