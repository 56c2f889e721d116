// Remembers the ids of short pieces of text ("units", char_joins.h): text repeats its words, and a lookup costs some
// nanoseconds.
//
//   const UnitCache::Key key = UnitCache::key_of(text, begin, end);     // end - begin <= kShort
//   if (const UnitCache::Short* ids = cache.find(key)) ...
//   else cache.insert(key, ids);
//
// Two levels. Units of up to 15 bytes and 4 ids stand in buckets of one cache line, the newer of two in front. Longer
// ones, up to kLongest bytes, are in an arena that is forgotten when it is full. Memory is bounded (some 10 MB).
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

namespace partita {

class UnitCache {
 public:
  static constexpr size_t kShort = 15, kLongest = 128;  // bytes
  static constexpr size_t kShortIds = 4;

  struct Key {  // the bytes, zeros behind them, and in the last byte their number
    uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  using Short = std::array<TokenId, kShortIds>;  // -1 behind the last

  UnitCache() : buckets_(kBuckets), slots_(kSlots) {}

  // text[begin, begin + bytes), 1 to kShort bytes.
  [[nodiscard]] static Key key_of(std::string_view text, size_t begin, size_t bytes) {
    Key key{0, 0};
    if (begin + 16 <= text.size()) {
      std::memcpy(&key, text.data() + begin, 16);
      if (bytes < 8) {
        key = {key.low & ((uint64_t{1} << (8 * bytes)) - 1), 0};
      } else {
        key.high &= (uint64_t{1} << (8 * (bytes - 8))) - 1;
      }
    } else {
      std::memcpy(&key, text.data() + begin, bytes);
    }
    key.high |= static_cast<uint64_t>(bytes) << 56;
    return key;
  }

  // Valid until the next insert.
  [[nodiscard]] const Short* find(const Key& key) const {
    const Bucket& bucket = buckets_[bucket_of(key)];
    if (bucket[0].key == key) return &bucket[0].ids;
    if (bucket[1].key == key) return &bucket[1].ids;
    return nullptr;
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
  // `unit` is not there yet.
  void insert_long(std::string_view unit, std::span<const TokenId> ids) {
    if (++used_ > kSlots / 2) {
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
  }

 private:
  static constexpr size_t kBuckets = size_t{1} << 16, kSlots = size_t{1} << 17;
  struct Entry {
    Key key{0, 0};  // no unit has no bytes
    Short ids{};
  };
  using Bucket = std::array<Entry, 2>;
  struct alignas(64) AlignedBucket : Bucket {};
  struct Slot {
    uint32_t hash, first_byte, first_id;
    uint16_t bytes, ids;  // bytes 0: free
  };

  static size_t bucket_of(const Key& key) {
    const uint64_t mixed = (key.low ^ (key.high * 0xBF58476D1CE4E5B9)) * 0x9E3779B97F4A7C15;
    return mixed >> 48;
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

}  // namespace partita
