// Caches the ids of short pieces of text ("units", char_joins.h): words repeat, and a lookup costs a few nanoseconds.
//
//   const UnitCache::Key key = UnitCache::key_of(text, begin, bytes);     // bytes <= kShort
//   if (const UnitCache::Short* ids = cache.find(key)) ...                // else find_long(), and insert()
//
// Two levels. Units of up to kLongest bytes are in an arena, which is cleared when full. Those of up to 15 bytes and 4
// ids are also in buckets of one cache line and two entries, the newer first. Memory is bounded: 8 MB plus the arena,
// at most 4 MB of text and 4 MB of ids (twice that while growing).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class UnitCache {
 public:
  static constexpr size_t kShort = 15, kLongest = 128;  // bytes
  static constexpr size_t kShortIds = 4;

  struct Key {  // the bytes, zero-padded, with their number in the last byte
    uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  using Short = std::array<TokenId, kShortIds>;  // padded with -1
  [[nodiscard]] static size_t count(const Short& ids) {
    size_t count = 0;
    for (const TokenId id : ids) count += id >= 0 ? 1 : 0;
    return count;
  }

  UnitCache() : buckets_(kBuckets), slots_(kSlots) {}

  // text[begin, begin + bytes), 1 to kShort bytes.
  [[nodiscard]] static Key key_of(std::string_view text, size_t begin, size_t bytes) {
    std::array<uint64_t, 2> words{};
    if (begin + sizeof(words) <= text.size()) {
      std::memcpy(words.data(), text.data() + begin, sizeof(words));
      const Key& mask = kMasks[bytes];
      return {words[0] & mask.low, (words[1] & mask.high) | static_cast<uint64_t>(bytes) << 56};
    }
    std::memcpy(words.data(), text.data() + begin, bytes);
    return {words[0], words[1] | static_cast<uint64_t>(bytes) << 56};
  }

  // Starts loading the memory that a later find(key) needs.
  void prefetch(const Key& key) const { __builtin_prefetch(&buckets_[bucket_of(key)]); }
  // Valid until the next insert.
  [[nodiscard]] const Short* find(const Key& key) const {
    const Bucket& bucket = buckets_[bucket_of(key)];
    // Which of the two matches is unpredictable, so avoid a branch.
    const bool first = ((bucket[0].key.low ^ key.low) | (bucket[0].key.high ^ key.high)) == 0;
    const bool second = ((bucket[1].key.low ^ key.low) | (bucket[1].key.high ^ key.high)) == 0;
    if (!(first | second)) [[unlikely]]
      return nullptr;
    return &bucket[first ? 0 : 1].ids;
  }
  // At most kShortIds ids.
  void insert(const Key& key, std::span<const TokenId> ids) {
    Bucket& bucket = buckets_[bucket_of(key)];
    bucket[1] = bucket[0];
    bucket[0].key = key;
    bucket[0].ids.fill(-1);
    std::copy(ids.begin(), ids.end(), bucket[0].ids.begin());
  }

  // Units of up to kLongest bytes. Valid until the next insert.
  [[nodiscard]] std::optional<std::span<const TokenId>> find_long(std::string_view unit) const {
    const uint64_t hash = hash_of(unit);
    for (size_t i = hash % kSlots; slots_[i].bytes > 0; i = (i + 1) % kSlots) {
      const Slot& slot = slots_[i];
      if (slot.hash == static_cast<uint32_t>(hash >> 32) && slot.bytes == unit.size() &&
          std::memcmp(bytes_.data() + slot.first_byte, unit.data(), unit.size()) == 0) {
        return std::span(ids_).subspan(slot.first_id, slot.ids);
      }
    }
    return std::nullopt;
  }
  // `unit` must not be cached yet. Returns what find_long() will return from now on.
  std::span<const TokenId> insert_long(std::string_view unit, std::span<const TokenId> ids) {
    if (++used_ > kSlots / 2 || bytes_.size() + unit.size() > kArenaBytes || ids_.size() + ids.size() > kArenaIds) {
      used_ = 1;
      slots_.assign(kSlots, {});
      bytes_.clear();
      ids_.clear();
    }
    const uint64_t hash = hash_of(unit);
    size_t i = hash % kSlots;
    while (slots_[i].bytes > 0) i = (i + 1) % kSlots;
    slots_[i] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(bytes_.size()),
                 static_cast<uint32_t>(ids_.size()), static_cast<uint16_t>(unit.size()),
                 static_cast<uint16_t>(ids.size())};
    bytes_ += unit;
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return std::span(ids_).last(ids.size());
  }

 private:
  static constexpr std::array<Key, kShort + 1> kMasks = [] {
    std::array<Key, kShort + 1> masks{};
    for (size_t bytes = 1; bytes <= kShort; ++bytes) {
      masks[bytes].low = bytes < 8 ? (uint64_t{1} << (8 * bytes)) - 1 : ~uint64_t{0};
      masks[bytes].high = bytes < 8 ? 0 : (uint64_t{1} << (8 * (bytes - 8))) - 1;
    }
    return masks;
  }();
  static constexpr int kLogBuckets = 16;
  static constexpr size_t kBuckets = size_t{1} << kLogBuckets, kSlots = size_t{1} << 18;
  static constexpr size_t kArenaBytes = size_t{1} << 22, kArenaIds = size_t{1} << 20;
  struct Entry {
    Key key{0, 0};  // matches no unit, because units are not empty
    Short ids{};
  };
  using Bucket = std::array<Entry, 2>;
  struct alignas(64) AlignedBucket : Bucket {};
  struct Slot {
    uint32_t hash, first_byte, first_id;
    uint16_t bytes, ids;  // bytes 0: free slot
  };

  static size_t bucket_of(const Key& key) {
    const uint64_t mixed = (key.low ^ (key.high * 0xBF58476D1CE4E5B9)) * 0x9E3779B97F4A7C15;
    return mixed >> (64 - kLogBuckets);
  }
  static uint64_t hash_of(std::string_view unit) {
    uint64_t hash = unit.size();
    for (size_t i = 0; i < unit.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, unit.data() + i, std::min<size_t>(8, unit.size() - i));
      hash = (hash ^ word) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 29;
    }
    return hash * 0xBF58476D1CE4E5B9;
  }

  std::vector<AlignedBucket> buckets_;
  std::vector<Slot> slots_;
  std::string bytes_;
  std::vector<TokenId> ids_;
  size_t used_ = 0;
};

}  // namespace partita::internal
