// Learns a byte-level BPE from text: counts pretokens, then joins the most frequent pair of neighbours again and again
// (R. Sennrich et al., ACL 2016), keeping the pair counts up to date instead of counting anew.
//
//   PretokenCounter counter(threads);
//   counter.add(documents);                                 // as often as there are more
//   BpeModel model = train_bpe(counter.counts(), {.vocab_size = 4096});
//   save_tokenizer_json(model, "tokenizer.json");
//
// Deterministic, whatever the number of threads: of equally frequent pairs the one with the smallest ids comes first.
// Ids: the 256 bytes in GPT-2's order (byte_level.h), the merges as they are learnt, then the special tokens.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"

namespace partita::internal {

struct PretokenCount {
  std::string pretoken;
  int64_t count;
};

class PretokenCounter {
 public:
  explicit PretokenCounter(int threads);
  // Counted by all threads; long texts are cut where that changes no pretoken.
  void add(std::span<const std::string_view> texts);
  void add(std::string_view text) { add(std::span(&text, 1)); }
  // Pretokens in byte order.
  [[nodiscard]] std::vector<PretokenCount> counts() const;

 private:
  int threads_;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Counts = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;
  static void count(std::string_view text, Counts& counts);
  std::vector<Counts> counts_;  // one a thread
};

struct BpeTrainerOptions {
  int64_t vocab_size = 4096;  // bytes, merges and special tokens
  int64_t min_frequency = 2;  // a rarer pair is not merged: the vocabulary may stay smaller than asked for
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
};

// Error: a vocab_size that has no room for bytes and special tokens, or is beyond reason; names that cannot be special.
void check(const BpeTrainerOptions& options);

// progress(merges learnt, merges wanted) is called now and then. Error: those of check(); no text.
[[nodiscard]] BpeModel train_bpe(const std::vector<PretokenCount>& counts, const BpeTrainerOptions& options,
                                 const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace partita::internal
