// Caches the ids of short pretokens, which are the majority: a hit costs two comparisons and no unpredictable branch.
//
//   const auto key = ShortPretokens::key_of(text, bytes);                // 1 .. 15 bytes; reads 16
//   ShortPretokens::Entry* set = cache.set_of(key);
//   const auto* entry = ShortPretokens::find(set, key);
//   if (entry == nullptr) cache.insert(set, key, merged_ids);
//   else ids.insert(ids.end(), cache.ids_of(*entry), cache.ids_of(*entry) + entry->count);
//
// Sets of four entries in two adjacent cache lines. New and reused entries move to the front, where lookup starts; the
// last entry is evicted. The table grows with its contents, up to 32 MB plus 8 MB of overflow ids.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "partita/tokenizer/huge_array.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class ShortPretokens {
 public:
  static constexpr size_t kLongest = 15, kInlineIds = 3, kWays = 4;
  static_assert(std::endian::native == std::endian::little);

  // The bytes of a pretoken, zero-padded, with their number in the last byte: " the" has low = 0x65687420, high = 4 <<
  // 56.
  struct Key {
    uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    TokenId ids[kInlineIds];  // if count <= kInlineIds; else ids[0] is an offset into more_
    uint32_t count;           // 0: free entry
  };
  static_assert(sizeof(Entry) == 32);

  static Key key_of(const char* text, size_t bytes) {
    Key key;
    std::memcpy(&key, text, sizeof key);
    return {key.low & kMasks[bytes].low, (key.high & kMasks[bytes].high) | bytes << 56};
  }

  // The set of a key; valid until tidy().
  [[nodiscard]] Entry* set_of(const Key& key) {
    // Multiplying makes the high bits depend on all bits of the key.
    return &entries_[((key.low ^ key.high * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93 >> shift_) * kWays];
  }

  // The entry that can be the key's among the first two of the set; the caller must compare keys.
  [[nodiscard]] static const Entry& candidate(const Entry* set, const Key& key) {
    return set[set[1].key.low == key.low ? 1 : 0];
  }

  // Finds the key's entry and moves it to the front; nullptr if there is none.
  static const Entry* find(Entry* set, const Key& key) {
    for (size_t way = 0; way < kWays; ++way) {
      if (set[way].key != key) continue;
      std::rotate(set, set + way, set + way + 1);
      return set;
    }
    return nullptr;
  }

  [[nodiscard]] const TokenId* ids_of(const Entry& entry) const {
    return entry.count <= kInlineIds ? entry.ids : &more_[static_cast<size_t>(entry.ids[0])];
  }

  // Grows if necessary, which invalidates all results of set_of.
  void tidy() {
    if (used_ > entries_.size() / 4 && entries_.size() < kMostEntries) grow();
    if (more_.size() > kMostMore) {
      entries_ = HugeArray<Entry>(entries_.size());
      more_.clear();
    }
  }

  // `key` must not be in its set.
  void insert(Entry* set, const Key& key, std::span<const TokenId> ids) {
    Entry entry{key, {}, static_cast<uint32_t>(ids.size())};
    if (ids.size() <= kInlineIds) {
      std::copy(ids.begin(), ids.end(), entry.ids);
    } else {
      entry.ids[0] = static_cast<TokenId>(more_.size());
      more_.insert(more_.end(), ids.begin(), ids.end());
    }
    put(set, entry);
  }

 private:
  static constexpr size_t kMostEntries = size_t{1} << 20, kMostMore = size_t{1} << 21;
  static constexpr std::array<Key, kLongest + 1> kMasks = [] {
    std::array<Key, kLongest + 1> masks{};
    for (size_t bytes = 0; bytes <= kLongest; ++bytes) {
      const auto low_bits = [](size_t count) { return count >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * count) - 1; };
      masks[bytes] = {low_bits(bytes), bytes > 8 ? low_bits(bytes - 8) : 0};
    }
    return masks;
  }();

  void put(Entry* set, const Entry& entry) {
    used_ += set[kWays - 1].count == 0 ? 1 : 0;
    std::copy_backward(set, set + kWays - 1, set + kWays);
    set[0] = entry;
  }

  void grow() {
    HugeArray<Entry> old(4 * entries_.size());
    std::swap(old, entries_);
    shift_ -= 2;
    used_ = 0;
    for (size_t i = old.size(); i-- > 0;) {  // back to front, which keeps the order within sets
      if (old[i].count > 0) put(set_of(old[i].key), old[i]);
    }
  }

  HugeArray<Entry> entries_{size_t{1} << 12};
  int shift_ = 64 - 10;
  size_t used_ = 0;
  std::vector<TokenId> more_;
};

}  // namespace partita::internal
