// A trie of strings with values, walked byte by byte: finds the strings that a text begins with.
//
//   const ByteTrie trie(strings);                     // {text, value >= 0}; texts unique and not empty
//   uint32_t node = ByteTrie::kRoot;
//   for (size_t i = at; i < text.size() && trie.step(node, text[i]); ++i) {
//     if (trie.value(node) >= 0) ...                  // text[at, i] is a string of the set
//   }
//
// A double array (J. Aoe, IEEE Trans. Software Engineering 15(9), 1989): each step is a single load.
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

  // Moves to the child of `node` for `byte`; returns false and leaves `node` unchanged if there is none.
  [[nodiscard]] bool step(uint32_t& node, char byte) const {
    const uint32_t child = nodes_[node].base ^ static_cast<unsigned char>(byte);
    if (nodes_[child].parent != node) return false;
    node = child;
    return true;
  }
  // Value of the string that ends at `node`; -1: none.
  [[nodiscard]] int32_t value(uint32_t node) const { return nodes_[node].value; }
  [[nodiscard]] bool empty() const { return empty_; }

 private:
  static constexpr uint32_t kFree = UINT32_MAX, kNoParent = UINT32_MAX - 1;  // parent of a free slot, of the root
  struct Node {
    uint32_t base = 0;  // children are at base ^ byte
    uint32_t parent = kFree;
    int32_t value = -1;
  };
  friend class ByteTrieBuilder;

  std::vector<Node> nodes_;
  bool empty_;
};

}  // namespace partita::internal
