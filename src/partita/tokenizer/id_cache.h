// Caches the ids of pieces of text that encoders process one by one (pretokens, units): words repeat, and a lookup
// costs a few nanoseconds.
//
//   IdCache cache(size_t{16} << 20);                                          // at most 16 MB
//   cache.tidy();                                                             // before each batch of lookups
//   const IdCache::Lookup lookup = cache.start(text, bytes, readable);        // several, so that their memory arrives
//   if (const auto* entry = IdCache::quick_find(lookup, bytes)) out = cache.copy_ids(*entry, out);
//   else ids = cache.find_or_add({text, bytes}, lookup, [&](std::string_view piece) { return encode(piece); });
//
// A hash table of sets of four entries in two adjacent cache lines, which grows with its contents. New and reused
// entries move to the front of their set; when it is full, the last one is evicted. Pieces of up to kShort bytes, the
// majority, are compared within their entries, without an unpredictable branch. An arena has the texts of longer pieces
// and what exceeds kInlineIds ids; when it is full, all that it holds is forgotten. Not thread-safe.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/tokenizer/huge_array.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class IdCache {
 public:
  static constexpr size_t kShort = 15, kLongest = 128;  // bytes of a piece; longer ones are not cached
  static constexpr size_t kInlineIds = 3;
  static_assert(std::endian::native == std::endian::little);

  // The bytes of a short piece, zero-padded, with their number in the last byte: " the" has low = 0x65687420, high =
  // 4 << 56. Longer pieces have a hash and their number of bytes. 0 and 0: a free entry.
  struct Key {
    uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    TokenId ids[kInlineIds];  // or ids[0] is their offset in the arena
    uint32_t count;
  };
  static_assert(sizeof(Entry) == 32);
  struct Lookup {
    Key key;
    Entry* set;  // valid until tidy()
  };

  // Takes up to `most_bytes` of memory, at least kLeastBytes, also while it grows: of these, the table has at most half
  // and the arena a quarter.
  static constexpr size_t kLeastBytes = size_t{1} << 18;
  explicit IdCache(size_t most_bytes)
      : most_entries_(std::bit_floor(std::max(most_bytes, kLeastBytes) / 2 / sizeof(Entry))),
        most_words_(std::max(most_bytes, kLeastBytes) / 4 / sizeof(TokenId)) {}

  // Grows the table if necessary. Not between start() and the other calls with its result.
  void tidy() {
    if (used_ > entries_.size() / 4 && entries_.size() < most_entries_) grow();
  }

  // Starts to load the memory for the piece of `bytes` > 0 bytes at `text`. `readable`: how many bytes can be read
  // there, which is faster if they are 16 or more.
  [[nodiscard]] Lookup start(const char* text, size_t bytes, size_t readable) {
    Key key{0, 0};
    if (bytes > kShort) [[unlikely]] {
      bytes = std::min(bytes, kLongest);
      key.low = std::hash<std::string_view>{}({text, bytes});
    } else if (readable >= sizeof key) [[likely]] {
      std::memcpy(&key, text, sizeof key);
      key = {key.low & kMasks[bytes].low, key.high & kMasks[bytes].high};
    } else {
      std::memcpy(&key, text, bytes);
    }
    key.high |= static_cast<uint64_t>(bytes) << 56;
    const Lookup lookup{key, set_of(key)};
    __builtin_prefetch(lookup.set);
    return lookup;
  }

  // The entry of a short piece if it is one of the first two of its set, else nullptr. Valid until the next call.
  [[nodiscard]] static const Entry* quick_find(const Lookup& lookup, size_t bytes) {
    const Entry& entry = lookup.set[lookup.set[1].key.low == lookup.key.low ? 1 : 0];
    return bytes <= kShort && entry.key == lookup.key ? &entry : nullptr;
  }
  // Writes the ids and returns their end. Up to kInlineIds elements past it are overwritten too.
  TokenId* copy_ids(const Entry& entry, TokenId* out) const {
    if (entry.count <= kInlineIds) {
      std::memcpy(out, entry.ids, sizeof entry.ids);
    } else {
      std::copy_n(&arena_[static_cast<size_t>(entry.ids[0])], entry.count, out);
    }
    return out + entry.count;
  }
  [[nodiscard]] std::span<const TokenId> ids_of(const Entry& entry) const {
    return {is_inline(entry) ? entry.ids : &arena_[static_cast<size_t>(entry.ids[0])], entry.count};
  }

  // The ids of any piece; if unknown they come from make(piece), whose result must stay valid for the caller. `lookup`
  // is the result of start() for the piece. Valid until the next call. Not inlined: the loops around it run 2% faster.
  template <class Make>
  [[gnu::noinline]] std::span<const TokenId> find_or_add(std::string_view piece, const Lookup& lookup, Make make) {
    if (piece.size() > kLongest) return make(piece);
    const auto [key, set] = lookup;
    for (size_t way = 0; way < kWays; ++way) {
      if (set[way].key != key || !has_text(set[way], piece)) continue;
      std::rotate(set, set + way, set + way + 1);
      return ids_of(*set);
    }
    const std::span<const TokenId> ids = make(piece);
    add(piece, key, set, ids);
    return ids;
  }

  [[nodiscard]] size_t bytes() const { return entries_.size() * sizeof(Entry) + arena_.capacity() * sizeof(TokenId); }

 private:
  static constexpr size_t kWays = 4;
  static constexpr std::array<Key, kShort + 1> kMasks = [] {
    std::array<Key, kShort + 1> masks{};
    for (size_t bytes = 0; bytes <= kShort; ++bytes) {
      const auto low_bits = [](size_t count) { return count >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * count) - 1; };
      masks[bytes] = {low_bits(bytes), bytes > 8 ? low_bits(bytes - 8) : 0};
    }
    return masks;
  }();

  [[nodiscard]] static bool is_long(const Entry& entry) { return entry.key.high >> 56 > kShort; }
  [[nodiscard]] static bool is_inline(const Entry& entry) { return entry.count <= kInlineIds && !is_long(entry); }

  [[nodiscard]] Entry* set_of(const Key& key) {
    // Multiplying makes the high bits depend on all bits of the key.
    return &entries_[((key.low ^ key.high * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93 >> shift_) * kWays];
  }

  // Whether an entry whose key equals that of `piece` also has its text. In the arena, an entry's text follows its ids.
  [[nodiscard]] bool has_text(const Entry& entry, std::string_view piece) const {
    return !is_long(entry) ||
           std::memcmp(&arena_[static_cast<size_t>(entry.ids[0]) + entry.count], piece.data(), piece.size()) == 0;
  }

  void add(std::string_view piece, const Key& key, Entry* set, std::span<const TokenId> ids) {
    Entry entry{key, {}, static_cast<uint32_t>(ids.size())};
    if (is_inline(entry)) {
      std::copy(ids.begin(), ids.end(), entry.ids);
    } else {
      const size_t text_bytes = is_long(entry) ? piece.size() : 0;
      const size_t text_words = (text_bytes + sizeof(TokenId) - 1) / sizeof(TokenId);
      if (!make_room(ids.size() + text_words)) return;
      entry.ids[0] = static_cast<TokenId>(arena_.size());
      arena_.insert(arena_.end(), ids.begin(), ids.end());
      arena_.resize(arena_.size() + text_words);
      std::memcpy(arena_.data() + arena_.size() - text_words, piece.data(), text_bytes);
    }
    put(set, entry);
  }

  void put(Entry* set, const Entry& entry) {
    used_ += set[kWays - 1].key.high == 0 ? 1 : 0;
    std::copy_backward(set, set + kWays - 1, set + kWays);
    set[0] = entry;
  }

  void grow() {
    HugeArray<Entry> old(std::min(4 * entries_.size(), most_entries_));
    std::swap(old, entries_);
    shift_ = 64 - std::countr_zero(entries_.size() / kWays);
    used_ = 0;
    for (size_t i = old.size(); i-- > 0;) {  // back to front, which keeps the order within sets
      if (old[i].key.high != 0) put(set_of(old[i].key), old[i]);
    }
  }

  // Room for `words` more in the arena, if necessary by forgetting what it holds. False: it is never large enough.
  [[nodiscard]] bool make_room(size_t words) {
    if (words > most_words_) return false;
    if (arena_.size() + words > most_words_) {
      for (size_t i = 0; i < entries_.size(); ++i) {
        if (is_inline(entries_[i])) continue;
        entries_[i] = {};
        --used_;
      }
      arena_.clear();
    }
    if (arena_.size() + words > arena_.capacity()) {
      arena_.reserve(std::min(std::max(2 * arena_.capacity(), arena_.size() + words), most_words_));
    }
    return true;
  }

  size_t most_entries_, most_words_;
  HugeArray<Entry> entries_{size_t{1} << 12};  // power of 2, at most most_entries_
  int shift_ = 64 - 10;
  size_t used_ = 0;  // entries that are not free
  std::vector<TokenId> arena_;
};

}  // namespace partita::internal
