// Caches the ids of pretokens that are too long for short_pretokens.h.
//
// Open addressing over one arena for bytes and one for ids. Grows with its contents up to 50 MB. When full it is
// cleared: frequent words return quickly, and memory stays bounded.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class PretokenCache {
 public:
  static constexpr size_t kLongest = 64;  // longest cached pretoken, in bytes

  [[nodiscard]] static uint64_t hash_of(std::string_view pretoken) { return std::hash<std::string_view>{}(pretoken); }

  // Valid until the next insert.
  [[nodiscard]] std::optional<std::span<const TokenId>> find(std::string_view pretoken, uint64_t hash) const {
    for (size_t i = hash & mask(); slots_[i].bytes > 0; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (slot.hash == hash && std::string_view(bytes_).substr(slot.first_byte, slot.bytes) == pretoken) {
        return std::span(ids_).subspan(slot.first_id, slot.ids);
      }
    }
    return std::nullopt;
  }

  // `pretoken` must be non-empty, at most kLongest bytes, and not cached yet.
  void insert(std::string_view pretoken, uint64_t hash, std::span<const TokenId> ids) {
    if (used_ == slots_.size() / 2) make_room();
    ++used_;
    slots_[free_slot(hash)] = {hash, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(ids_.size()),
                               static_cast<uint16_t>(pretoken.size()), static_cast<uint16_t>(ids.size())};
    bytes_ += pretoken;
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  static constexpr size_t kMostSlots = size_t{1} << 18;
  struct Slot {
    uint64_t hash;
    uint32_t first_byte, first_id;
    uint16_t bytes, ids;  // bytes 0: free slot
  };

  [[nodiscard]] size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] size_t free_slot(uint64_t hash) const {
    size_t i = hash & mask();
    while (slots_[i].bytes > 0) i = (i + 1) & mask();
    return i;
  }

  void make_room() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::min(4 * slots_.size(), kMostSlots)));
    if (old.size() == kMostSlots) {
      used_ = 0;
      bytes_.clear();
      ids_.clear();
      return;
    }
    for (const Slot& slot : old) {
      if (slot.bytes > 0) slots_[free_slot(slot.hash)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << 10);
  std::string bytes_;
  std::vector<TokenId> ids_;
  size_t used_ = 0;
};

}  // namespace partita::internal
