#include "partita/tokenizer/unigram/byte_trie.h"

#include <algorithm>

namespace partita::internal {

class ByteTrieBuilder {
 public:
  ByteTrieBuilder(std::vector<ByteTrie::Node>& nodes, const std::vector<ByteTrie::String>& strings)
      : nodes_(nodes), strings_(strings) {
    grow();
    take(ByteTrie::kRoot, ByteTrie::kNoParent);
    // Iterative, because strings may be long.
    open_.push_back({ByteTrie::kRoot, 0, 0, strings.size()});
    while (!open_.empty()) {
      const Range range = open_.back();
      open_.pop_back();
      place(range);
    }
  }

 private:
  struct Range {  // strings [begin, end) share their first `depth` bytes, which lead to `node`
    uint32_t node;
    size_t depth, begin, end;
  };
  static constexpr size_t kBlock = 256;
  static constexpr int kTries = 64;  // positions tried before the array grows

  void place(Range range) {
    if (range.begin < range.end && strings_[range.begin].text.size() == range.depth) {
      nodes_[range.node].value = strings_[range.begin].value;
      ++range.begin;
    }
    if (range.begin == range.end) return;
    std::vector<unsigned char> bytes;
    std::vector<size_t> begins;
    for (size_t i = range.begin; i < range.end; ++i) {
      const auto byte = static_cast<unsigned char>(strings_[i].text[range.depth]);
      if (!bytes.empty() && bytes.back() == byte) continue;
      bytes.push_back(byte);
      begins.push_back(i);
    }
    begins.push_back(range.end);
    const uint32_t base = find_base(bytes);
    nodes_[range.node].base = base;
    for (size_t c = 0; c < bytes.size(); ++c) {
      const uint32_t child = base ^ bytes[c];
      take(child, range.node);
      open_.push_back({child, range.depth + 1, begins[c], begins[c + 1]});
    }
  }

  uint32_t find_base(const std::vector<unsigned char>& bytes) {
    uint32_t at = first_free_;
    for (int tried = 0; tried < kTries && at != ByteTrie::kFree; ++tried, at = next_free_[at]) {
      const uint32_t base = at ^ bytes[0];
      const auto is_free = [&](unsigned char byte) { return nodes_[base ^ byte].parent == ByteTrie::kFree; };
      if (std::all_of(bytes.begin(), bytes.end(), is_free)) return base;
    }
    const auto base = static_cast<uint32_t>(nodes_.size());
    grow();
    return base;
  }

  // The free list is in ascending order, except that new blocks are added at its front.
  void grow() {
    const size_t size = nodes_.size();
    nodes_.resize(size + kBlock);
    next_free_.resize(size + kBlock);
    before_free_.resize(size + kBlock);
    for (size_t i = size + kBlock; i-- > size;) {
      next_free_[i] = first_free_;
      before_free_[i] = ByteTrie::kFree;
      if (first_free_ != ByteTrie::kFree) before_free_[first_free_] = static_cast<uint32_t>(i);
      first_free_ = static_cast<uint32_t>(i);
    }
  }
  void take(uint32_t node, uint32_t parent) {
    nodes_[node].parent = parent;
    const uint32_t before = before_free_[node], next = next_free_[node];
    (before == ByteTrie::kFree ? first_free_ : next_free_[before]) = next;
    if (next != ByteTrie::kFree) before_free_[next] = before;
  }

  std::vector<ByteTrie::Node>& nodes_;
  const std::vector<ByteTrie::String>& strings_;
  std::vector<Range> open_;
  std::vector<uint32_t> next_free_, before_free_;
  uint32_t first_free_ = ByteTrie::kFree;
};

ByteTrie::ByteTrie(std::vector<String> strings) : empty_(strings.empty()) {
  std::sort(strings.begin(), strings.end(), [](const String& a, const String& b) { return a.text < b.text; });
  ByteTrieBuilder(nodes_, strings);
  nodes_.shrink_to_fit();
}

}  // namespace partita::internal
