// Remembers the ids of pretokens: text repeats its words, and a lookup costs a tenth of merging.
//
// Flat open addressing over one arena of bytes and one of ids. When full, it forgets everything: the common words are
// back at once, and memory stays bounded (some 16 MB).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/tokenizer/tokenizer.h"

namespace partita {

class PretokenCache {
 public:
  static constexpr size_t kLongest = 64;  // bytes of a pretoken worth remembering

  PretokenCache() : slots_(kSlots) {}

  [[nodiscard]] static uint64_t hash_of(std::string_view pretoken) { return std::hash<std::string_view>{}(pretoken); }

  // Valid until the next insert.
  [[nodiscard]] std::optional<std::span<const TokenId>> find(std::string_view pretoken, uint64_t hash) const {
    for (size_t i = hash % kSlots; slots_[i].bytes > 0; i = (i + 1) % kSlots) {
      const Slot& slot = slots_[i];
      if (slot.hash == hash && std::string_view(bytes_).substr(slot.first_byte, slot.bytes) == pretoken) {
        return std::span(ids_).subspan(slot.first_id, slot.ids);
      }
    }
    return std::nullopt;
  }

  // `pretoken` is not empty, not longer than kLongest and not there yet.
  void insert(std::string_view pretoken, uint64_t hash, std::span<const TokenId> ids) {
    if (++used_ > kMost) {
      used_ = 1;
      slots_.assign(kSlots, {});
      bytes_.clear();
      ids_.clear();
    }
    size_t i = hash % kSlots;
    while (slots_[i].bytes > 0) i = (i + 1) % kSlots;
    slots_[i] = {hash, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(ids_.size()),
                 static_cast<uint16_t>(pretoken.size()), static_cast<uint16_t>(ids.size())};
    bytes_ += pretoken;
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 18, kMost = kSlots / 2;
  struct Slot {
    uint64_t hash;
    uint32_t first_byte, first_id;
    uint16_t bytes, ids;  // bytes 0: free
  };

  std::vector<Slot> slots_;
  std::string bytes_;
  std::vector<TokenId> ids_;
  size_t used_ = 0;
};

}  // namespace partita
