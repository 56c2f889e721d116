// Trains a byte-level BPE: counts pretokens, then repeatedly merges the most frequent adjacent pair (R. Sennrich et
// al., ACL 2016), updating the pair counts incrementally.
//
//   PretokenCounter counter(threads);
//   counter.add(documents);                                 // repeat for more documents
//   BpeModel model = train_bpe(counter.counts(), {.vocab_size = 4096});
//   save_tokenizer_json(model, "tokenizer.json");
//
// Deterministic for any number of threads: ties between equally frequent pairs go to the smallest ids. Ids: the 256
// bytes in GPT-2's order (byte_level.h), the merges in the order learned, then the special tokens.
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
  // Counts on all threads; long texts are split where that does not change pretokens.
  void add(std::span<const std::string_view> texts);
  void add(std::string_view text) { add(std::span(&text, 1)); }
  // Pretokens sorted by their bytes.
  [[nodiscard]] std::vector<PretokenCount> counts() const;

 private:
  int threads_;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Counts = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;
  static void count(std::string_view text, Counts& counts);
  std::vector<Counts> counts_;  // one per thread
};

struct BpeTrainerOptions {
  int64_t vocab_size = 4096;  // counts bytes, merges and special tokens
  int64_t min_frequency = 2;  // rarer pairs are not merged, so the vocabulary may end up smaller
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
};

// Error: vocab_size too small for bytes and special tokens, or unreasonably large; invalid names of special tokens.
void check(const BpeTrainerOptions& options);

// progress(merges learned, merges requested) is called periodically. Error: those of check(); no text.
[[nodiscard]] BpeModel train_bpe(const std::vector<PretokenCount>& counts, const BpeTrainerOptions& options,
                                 const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace partita::internal
