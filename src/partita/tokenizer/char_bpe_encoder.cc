#include "partita/tokenizer/char_bpe_encoder.h"

#include "partita/base/error.h"

namespace partita {

void UnknownChars::append(std::string_view characters, bool after_unknown, std::vector<TokenId>& ids) const {
  switch (as) {
    case As::dropped:
      break;
    case As::each:
      for (size_t at = 0; at < characters.size(); at += char_bytes(characters, at)) ids.push_back(unk);
      break;
    case As::fused:
      if (!after_unknown && !characters.empty()) ids.push_back(unk);
      break;
    case As::bytes:
      for (const char c : characters) {
        if (c == ' ' && space_is_block) {
          for (const unsigned char byte : {0xE2, 0x96, 0x81}) ids.push_back(bytes[byte]);
        } else {
          ids.push_back(bytes[static_cast<unsigned char>(c)]);
        }
      }
      break;
  }
}

void append_symbols(const CharBpeTable& table, std::string_view text, size_t begin, size_t end,
                    std::vector<SymbolAt>& symbols) {
  if (end > UINT32_MAX) fail("a text of {} bytes without a place to cut it: 4 GiB at most", text.size());
  for (size_t at = begin; at < end;) {
    const size_t bytes = std::min(char_bytes(text, at), end - at);
    symbols.push_back({table.symbol_of(char_key(text, at, bytes)), static_cast<uint32_t>(at)});
    at += bytes;
  }
}

void CharBpeEncoder::encode_unit(std::string_view unit, std::vector<TokenId>& ids) {
  symbols_.clear();
  append_symbols(*table_, unit, 0, unit.size(), symbols_);
  merger_.merge(*table_, symbols_);
  bool after_unknown = false;
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const Symbol symbol = symbols_[i].symbol;
    if (symbol >= 0 && symbol < vocab_size_) {
      ids.push_back(symbol);
      after_unknown = false;
      continue;
    }
    const size_t end = i + 1 < symbols_.size() ? symbols_[i + 1].begin : unit.size();
    unknown_->append(unit.substr(symbols_[i].begin, end - symbols_[i].begin), after_unknown, ids);
    after_unknown = true;
  }
}

void CharBpeEncoder::encode_part(std::string_view text, std::vector<TokenId>& ids) {
  constexpr size_t kBlock = 4096;
  out_.resize(kBlock + UnitCache::kShortIds);
  TokenId* const out = out_.data();
  size_t count = 0;
  const auto flush = [&] {
    ids.insert(ids.end(), out, out + count);
    count = 0;
  };
  const bool fused = unknown_->as == UnknownChars::As::fused;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = table_->joins().unit_end(text, begin);
    const std::string_view unit = text.substr(begin, end - begin);
    const bool is_short = unit.size() <= UnitCache::kShort;
    UnitCache::Key key{};
    if (is_short) {
      key = UnitCache::key_of(text, begin, unit.size());
      if (const UnitCache::Short* known = cache_.find(key)) {
        if (!fused) {
          std::copy(known->begin(), known->end(), out + count);
          for (const TokenId id : *known) count += id >= 0 ? 1 : 0;
        } else {
          size_t n = 0;
          while (n < known->size() && (*known)[n] >= 0) ++n;
          for (const TokenId id : without_second_unknown(std::span(*known).first(n))) out[count++] = id;
        }
        if (count >= kBlock) flush();
        begin = end;
        continue;
      }
    }
    begin = end;
    flush();
    if (unit.size() <= UnitCache::kLongest) {
      if (const auto known = cache_.find_long(unit)) {
        const auto wanted = without_second_unknown(*known);
        ids.insert(ids.end(), wanted.begin(), wanted.end());
        continue;
      }
    }
    unit_ids_.clear();
    encode_unit(unit, unit_ids_);
    if (is_short && unit_ids_.size() <= UnitCache::kShortIds) {
      cache_.insert(key, unit_ids_);
    } else if (unit.size() <= UnitCache::kLongest) {
      cache_.insert_long(unit, unit_ids_);
    }
    const auto wanted = without_second_unknown(unit_ids_);
    ids.insert(ids.end(), wanted.begin(), wanted.end());
  }
  flush();
}

}  // namespace partita
