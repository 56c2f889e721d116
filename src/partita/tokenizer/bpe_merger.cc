#include "partita/tokenizer/bpe_merger.h"

#include <algorithm>
#include <tuple>

#include "partita/tokenizer/bpe.h"

namespace partita {
namespace {

constexpr int64_t kNone = -1;

// std::push_heap keeps the greatest in front: the order is turned round.
constexpr auto kLater = [](const auto& a, const auto& b) { return std::tie(a.rank, a.at) > std::tie(b.rank, b.at); };

}  // namespace

void BpeMerger::add_candidate(int64_t at) {
  const Node& node = nodes_[static_cast<size_t>(at)];
  if (node.after == kNone) return;
  const auto found = tokenizer_->merges().find(node.id, nodes_[static_cast<size_t>(node.after)].id);
  if (found.rank != MergeTable::kNone) heap_.push_back({found.rank, found.result, at});
}

void BpeMerger::merge(std::string_view pretoken, std::vector<TokenId>& ids) {
  const auto count = static_cast<int64_t>(pretoken.size());
  nodes_.clear();
  heap_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(pretoken[static_cast<size_t>(i)]);
    nodes_.push_back({tokenizer_->byte_token(byte), i - 1, i + 1 < count ? i + 1 : kNone});
  }
  for (int64_t i = 0; i < count; ++i) add_candidate(i);
  std::make_heap(heap_.begin(), heap_.end(), kLater);

  while (!heap_.empty()) {
    const Candidate next = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), kLater);
    heap_.pop_back();
    Node& left = nodes_[static_cast<size_t>(next.at)];
    if (left.id < 0 || left.after == kNone) continue;
    Node& right = nodes_[static_cast<size_t>(left.after)];
    // One of the two has merged with another since: the pair that stands here now has a candidate of its own.
    if (tokenizer_->merges().find(left.id, right.id).rank != next.rank) continue;
    left.id = next.result;
    left.after = right.after;
    right.id = kNone;
    if (left.after != kNone) nodes_[static_cast<size_t>(left.after)].before = next.at;
    for (const int64_t at : {left.before, next.at}) {
      const size_t size = heap_.size();
      if (at != kNone) add_candidate(at);
      if (heap_.size() > size) std::push_heap(heap_.begin(), heap_.end(), kLater);
    }
  }
  for (const Node& node : nodes_) {
    if (node.id >= 0) ids.push_back(node.id);
  }
}

}  // namespace partita
