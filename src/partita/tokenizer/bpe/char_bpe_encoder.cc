#include "partita/tokenizer/bpe/char_bpe_encoder.h"

#include "partita/base/error.h"

namespace partita::internal {

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

std::span<const TokenId> CharBpeEncoder::encode_unit(std::string_view unit) {
  unit_ids_.clear();
  symbols_.clear();
  append_symbols(*table_, unit, 0, unit.size(), symbols_);
  merger_.merge(*table_, symbols_);
  bool after_unknown = false;
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const Symbol symbol = symbols_[i].symbol;
    if (symbol >= 0 && symbol < vocab_size_) {
      unit_ids_.push_back(symbol);
      after_unknown = false;
      continue;
    }
    const size_t end = i + 1 < symbols_.size() ? symbols_[i + 1].begin : unit.size();
    unknown_->append(unit.substr(symbols_[i].begin, end - symbols_[i].begin), after_unknown, unit_ids_);
    after_unknown = true;
  }
  return unit_ids_;
}

void CharBpeEncoder::encode_part(std::string_view text, std::vector<TokenId>& ids) {
  auto& [ends, lookups, out] = scratch_;
  const bool fuses = unknown_->as == UnknownChars::As::fused;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t count = table_->joins().find_ends(text, at, ends);
    cache_.tidy();
    // Start all lookups first, so that their memory has arrived before the first result is used.
    for (size_t u = 0, first = begin; u < count; first = ends[u++]) {
      lookups[u] = cache_.start(text.data() + first, ends[u] - first, text.size() - first);
    }
    size_t written = 0;
    for (size_t u = 0; u < count; begin = ends[u++]) {
      const size_t bytes = ends[u] - begin;
      const auto* known = IdCache::quick_find(lookups[u], bytes);
      if (known != nullptr && known->count <= IdCache::kInlineIds && !fuses) [[likely]] {
        written = static_cast<size_t>(cache_.copy_ids(*known, out.data() + written) - out.data());
        continue;
      }
      ids.insert(ids.end(), out.begin(), out.begin() + static_cast<int64_t>(written));
      written = 0;
      const auto all = known != nullptr
                           ? cache_.ids_of(*known)
                           : cache_.find_or_add(text.substr(begin, bytes), lookups[u],
                                                [this](std::string_view unit) { return encode_unit(unit); });
      const auto wanted = without_second_unknown(all);
      ids.insert(ids.end(), wanted.begin(), wanted.end());
    }
    ids.insert(ids.end(), out.begin(), out.begin() + static_cast<int64_t>(written));
  }
}

}  // namespace partita::internal
