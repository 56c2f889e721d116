// A set of strings with values, walked byte by byte from a text: which strings does the text begin with?
//
//   const ByteTrie trie(strings);                     // {text, value >= 0}, no text twice, none empty
//   uint32_t node = ByteTrie::kRoot;
//   for (size_t i = at; i < text.size() && trie.step(node, text[i]); ++i) {
//     if (trie.value(node) >= 0) ...                  // text[at, i] is a string of the set
//   }
//
// A double array (J. Aoe, IEEE Trans. Software Engineering 15(9), 1989): a step is one load.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace partita::internal {

class ByteTrie {
 public:
  struct String {
    std::string_view text;
    int32_t value;
  };
  static constexpr uint32_t kRoot = 0;

  explicit ByteTrie(std::vector<String> strings = {});

  // To the child of `node` by `byte`; false, and `node` stays, if it has none.
  [[nodiscard]] bool step(uint32_t& node, char byte) const {
    const uint32_t child = nodes_[node].base ^ static_cast<unsigned char>(byte);
    if (nodes_[child].parent != node) return false;
    node = child;
    return true;
  }
  // Of the string that ends at `node`; -1: none does.
  [[nodiscard]] int32_t value(uint32_t node) const { return nodes_[node].value; }
  [[nodiscard]] bool empty() const { return empty_; }

 private:
  static constexpr uint32_t kFree = UINT32_MAX, kNoParent = UINT32_MAX - 1;  // as parents: of no node, of the root
  struct Node {
    uint32_t base = 0;  // children stand at base ^ byte
    uint32_t parent = kFree;
    int32_t value = -1;
  };
  friend class ByteTrieBuilder;

  std::vector<Node> nodes_;
  bool empty_;
};

}  // namespace partita::internal
