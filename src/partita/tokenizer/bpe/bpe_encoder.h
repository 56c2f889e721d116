// Encoder of ByteLevelBpe: scans text in windows, looks pretokens up in caches, and merges the rest.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/bpe_merger.h"
#include "partita/tokenizer/bpe/pretoken_cache.h"
#include "partita/tokenizer/bpe/short_pretokens.h"
#include "partita/tokenizer/split/pretoken_scanner.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class ByteLevelBpe;

class BpeEncoder final : public Encoder {
 public:
  explicit BpeEncoder(const ByteLevelBpe& tokenizer);
  void encode(std::string_view text, std::vector<TokenId>& ids) override;

 private:
  void encode_window(const PretokenScanner::Window& window, std::vector<TokenId>& ids);
  // The ids of a pretoken that the fast path did not find; valid until the next call.
  std::span<const TokenId> encode_miss(std::string_view pretoken, ShortPretokens::Entry* set,
                                       const ShortPretokens::Key& key);
  std::span<const TokenId> encode_long(std::string_view pretoken);
  std::span<const TokenId> merge(std::string_view pretoken);

  const ByteLevelBpe* tokenizer_;
  static constexpr size_t kBatch = 32;

  PretokenScanner scanner_;
  BpeMerger merger_;
  ShortPretokens short_;
  PretokenCache others_;
  std::vector<TokenId> merged_;
  std::vector<TokenId> found_;  // ids of the current window
};

}  // namespace partita::internal
