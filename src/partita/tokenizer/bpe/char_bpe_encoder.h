// The encoder of BPE over characters that CharBpe (char_bpe.h) and SentencePiece (sentencepiece_bpe.h) share: units
// (char_joins.h), a cache of their ids, merges for those that are new.
//
//   CharBpeEncoder encoder(table, unknown, vocab_size);
//   encoder.begin_text();
//   encoder.encode_part("▁Hello▁", ids);        // parts of one text that no merge joins
//   encoder.encode_part("world", ids);
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/char_bpe_merger.h"
#include "partita/tokenizer/bpe/char_bpe_table.h"
#include "partita/tokenizer/bpe/unit_cache.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

// What characters that are no token become.
struct UnknownChars {
  enum class As : uint8_t {
    dropped,
    each,   // `unk`, one a character
    fused,  // `unk`, one for neighbours
    bytes,  // a token a byte
  };
  As as = As::dropped;
  TokenId unk = -1;
  std::array<TokenId, 256> bytes{};
  bool space_is_block = false;  // in the text ' ' stands for U+2581: its bytes are that character's

  // The ids of one or several characters. `after_unknown`: so was the character before.
  void append(std::string_view characters, bool after_unknown, std::vector<TokenId>& ids) const;
};

class CharBpeEncoder {
 public:
  // Symbols below `vocab_size` are token ids, others unknown characters. All is kept by reference.
  CharBpeEncoder(const CharBpeTable& table, const UnknownChars& unknown, int64_t vocab_size)
      : table_(&table), unknown_(&unknown), vocab_size_(vocab_size) {}

  void begin_text() { after_unknown_ = false; }
  // A part's neighbours have to be parts that no merge joins it with.
  void encode_part(std::string_view text, std::vector<TokenId>& ids);
  // A token that stands for itself.
  void put(TokenId id, std::vector<TokenId>& ids) {
    ids.push_back(id);
    after_unknown_ = false;
  }

 private:
  // The ids of a unit that the cache's first level does not have; valid until the next call.
  std::span<const TokenId> look_up(std::string_view unit, const UnitCache::Key& key);
  void encode_unit(std::string_view unit, std::vector<TokenId>& ids);
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
  UnitCache cache_;
  static constexpr size_t kUnits = std::tuple_size_v<CharJoins::Ends>;
  struct {
    CharJoins::Ends ends;
    std::array<UnitCache::Key, kUnits> keys;
    std::array<TokenId, kUnits * UnitCache::kShortIds> out;
  } scratch_;
  std::vector<SymbolAt> symbols_;
  std::vector<TokenId> unit_ids_;
};

// The characters of `text` as symbols, appended.
void append_symbols(const CharBpeTable& table, std::string_view text, size_t begin, size_t end,
                    std::vector<SymbolAt>& symbols);

}  // namespace partita::internal
