// Encoder of ByteLevelBpe: scans text in windows, looks pretokens up in a cache, and merges the rest.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/bpe_merger.h"
#include "partita/tokenizer/id_cache.h"
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
  // Valid until the next call.
  std::span<const TokenId> merge(std::string_view pretoken);

  const ByteLevelBpe* tokenizer_;
  static constexpr size_t kBatch = 32;

  PretokenScanner scanner_;
  BpeMerger merger_;
  IdCache cache_{size_t{64} << 20};
  std::vector<TokenId> merged_;
  std::vector<TokenId> found_;  // ids of the current window
};

}  // namespace partita::internal
