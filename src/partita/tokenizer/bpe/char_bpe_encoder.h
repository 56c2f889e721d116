// The character BPE encoder shared by CharBpe (char_bpe.h) and SentencePiece (sentencepiece_bpe.h): splits text into
// units (char_joins.h), looks their ids up in a cache, and merges new units.
//
//   CharBpeEncoder encoder(table, unknown, vocab_size);
//   encoder.begin_text();
//   encoder.encode_part("▁Hello▁", ids);        // parts of one text that no merge crosses
//   encoder.encode_part("world", ids);
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/char_bpe_merger.h"
#include "partita/tokenizer/bpe/char_bpe_table.h"
#include "partita/tokenizer/id_cache.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

// What to emit for characters that are not tokens.
struct UnknownChars {
  enum class As : uint8_t {
    dropped,
    each,   // one `unk` per character
    fused,  // one `unk` per run of adjacent characters
    bytes,  // one token per byte
  };
  As as = As::dropped;
  TokenId unk = -1;
  std::array<TokenId, 256> bytes{};
  bool space_is_block = false;  // the text uses ' ' in place of U+2581; emit the bytes of that character for it

  // Appends the ids of one or more characters. `after_unknown`: the preceding character was unknown too.
  void append(std::string_view characters, bool after_unknown, std::vector<TokenId>& ids) const;
};

class CharBpeEncoder {
 public:
  // Symbols below `vocab_size` are token ids, others are unknown characters. Keeps references to its arguments.
  CharBpeEncoder(const CharBpeTable& table, const UnknownChars& unknown, int64_t vocab_size)
      : table_(&table), unknown_(&unknown), vocab_size_(vocab_size) {}

  void begin_text() { after_unknown_ = false; }
  // No merge may cross between a part and its neighbors.
  void encode_part(std::string_view text, std::vector<TokenId>& ids);
  // Appends a token that is not encoded from text.
  void put(TokenId id, std::vector<TokenId>& ids) {
    ids.push_back(id);
    after_unknown_ = false;
  }

 private:
  // Valid until the next call.
  std::span<const TokenId> encode_unit(std::string_view unit);
  [[nodiscard]] std::span<const TokenId> without_second_unknown(std::span<const TokenId> ids) {
    if (unknown_->as != UnknownChars::As::fused || ids.empty()) return ids;
    const bool repeated = after_unknown_ && ids.front() == unknown_->unk;
    after_unknown_ = ids.back() == unknown_->unk;
    return ids.subspan(repeated ? 1 : 0);
  }

  const CharBpeTable* table_;
  const UnknownChars* unknown_;
  int64_t vocab_size_;
  bool after_unknown_ = false;
  CharBpeMerger merger_;
  IdCache cache_{size_t{16} << 20};
  static constexpr size_t kUnits = std::tuple_size_v<CharJoins::Ends>;
  struct {
    CharJoins::Ends ends;
    std::array<IdCache::Lookup, kUnits> lookups;
    std::array<TokenId, kUnits * IdCache::kInlineIds> out;
  } scratch_;
  std::vector<SymbolAt> symbols_;
  std::vector<TokenId> unit_ids_;
};

// Appends the characters of `text` as symbols.
void append_symbols(const CharBpeTable& table, std::string_view text, size_t begin, size_t end,
                    std::vector<SymbolAt>& symbols);

}  // namespace partita::internal
