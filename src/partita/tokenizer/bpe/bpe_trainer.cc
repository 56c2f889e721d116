#include "partita/tokenizer/bpe/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <queue>
#include <thread>

#include "partita/base/error.h"
#include "partita/tokenizer/byte_level.h"
#include "partita/tokenizer/split/gpt2_split.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

constexpr size_t kPieceBytes =
    size_t{1} << 20;  // long texts are split into pieces of this size, one per thread at a time

using Pair = std::pair<TokenId, TokenId>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    return (static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second)) *
               0x9E3779B97F4A7C15 >>
           16;
  }
};

struct Word {
  std::vector<TokenId> tokens;
  int64_t count;
};

// Training state: words as merged so far, and every adjacent pair with its count and the words that contain it.
class PairStatistics {
 public:
  explicit PairStatistics(std::vector<Word> words) : words_(std::move(words)) {
    for (size_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (size_t i = 0; i + 1 < word.tokens.size(); ++i) {
        change({word.tokens[i], word.tokens[i + 1]}, word.count, static_cast<uint32_t>(w));
      }
    }
    for (const auto& [pair, entry] : pairs_) queue_.push({entry.count, pair});
  }

  // The most frequent pair, smallest ids on ties; count 0 if no pairs are left.
  std::pair<Pair, int64_t> most_frequent() {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      const auto found = pairs_.find(best.pair);
      const int64_t count = found == pairs_.end() ? 0 : found->second.count;
      if (count == best.count) return {best.pair, count};
      // Its count dropped since it was queued: requeue it. (If the count rose, a newer entry came first.)
      queue_.pop();
      if (count > 0 && count < best.count) queue_.push({count, best.pair});
    }
    return {{}, 0};
  }

  // Replaces the pair by `result` in all words, from left to right.
  void merge(const Pair& pair, TokenId result) {
    auto node = pairs_.extract(pair);
    std::vector<uint32_t>& words = node.mapped().words;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    grown_.clear();
    for (uint32_t w : words) merge_in_word(w, pair, result);
    pairs_.erase(pair);  // its count was decremented along the way
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Pair& other : grown_) {
      if (const auto found = pairs_.find(other); found != pairs_.end()) queue_.push({found->second.count, other});
    }
  }

 private:
  struct Entry {
    int64_t count = 0;
    std::vector<uint32_t> words;  // words that contain or once contained the pair; may repeat
  };
  struct Candidate {
    int64_t count;  // at the time it was queued
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void change(const Pair& pair, int64_t by, uint32_t word) {
    Entry& entry = pairs_[pair];
    entry.count += by;
    if (by > 0 && (entry.words.empty() || entry.words.back() != word)) entry.words.push_back(word);
  }

  // Updates the counts: the neighbors on both sides form new pairs with the result, and their old pairs disappear.
  void merge_in_word(uint32_t w, const Pair& pair, TokenId result) {
    Word& word = words_[w];
    std::vector<TokenId>& tokens = word.tokens;
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size();) {
      if (i + 1 == tokens.size() || tokens[i] != pair.first || tokens[i + 1] != pair.second) {
        tokens[kept++] = tokens[i++];
        continue;
      }
      if (kept > 0) {
        change({tokens[kept - 1], pair.first}, -word.count, w);
        grow({tokens[kept - 1], result}, word.count, w);
      }
      if (i + 2 < tokens.size()) {
        change({pair.second, tokens[i + 2]}, -word.count, w);
        grow({result, tokens[i + 2]}, word.count, w);
      }
      tokens[kept++] = result;
      i += 2;
    }
    tokens.resize(kept);
  }

  void grow(const Pair& pair, int64_t by, uint32_t word) {
    change(pair, by, word);
    grown_.push_back(pair);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Entry, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> grown_;
};

std::vector<Word> words_of(const std::vector<PretokenCount>& counts) {
  std::array<TokenId, 256> id_of_byte{};
  for (size_t id = 0; id < 256; ++id) id_of_byte[byte_level_alphabet()[id]] = static_cast<TokenId>(id);
  std::vector<Word> words;
  words.reserve(counts.size());
  for (const auto& [pretoken, count] : counts) {
    Word word{{}, count};
    for (char c : pretoken) word.tokens.push_back(id_of_byte[static_cast<unsigned char>(c)]);
    words.push_back(std::move(word));
  }
  return words;
}

// Error: names that tokenizer.json cannot hold.
void check_special_tokens(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail("a special token has no name");
    if (find_invalid_utf8(names[i])) fail("special token {} is not UTF-8", i + 1);
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      fail("the special token {} is given twice", names[i]);
  }
}

}  // namespace

void check(const BpeTrainerOptions& options) {
  check_special_tokens(options.special_tokens);
  const auto special = static_cast<int64_t>(options.special_tokens.size());
  if (options.vocab_size < 256 + special)
    fail("a vocabulary of {} has no room for 256 bytes and {} special tokens: use at least {}", options.vocab_size,
         special, 256 + special);
  constexpr int64_t kMost = int64_t{1} << 24;
  if (options.vocab_size > kMost) fail("a vocabulary of {}: use at most {}", options.vocab_size, kMost);
}

PretokenCounter::PretokenCounter(int threads)
    : threads_(std::max(1, threads)), counts_(static_cast<size_t>(threads_)) {}

void PretokenCounter::count(std::string_view text, Counts& counts) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = gpt2_pretoken_end(text, begin);
    const std::string_view pretoken = text.substr(begin, end - begin);
    if (const auto found = counts.find(pretoken); found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace(pretoken, 1);
    }
    begin = end;
  }
}

void PretokenCounter::add(std::span<const std::string_view> texts) {
  std::vector<std::string_view> pieces;
  for (std::string_view text : texts) {
    while (!text.empty()) {
      const size_t end = text.size() <= kPieceBytes ? text.size() : gpt2_safe_cut(text, kPieceBytes);
      pieces.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
  }
  std::vector<std::exception_ptr> errors(counts_.size());
  const auto count_share = [&](size_t thread) {
    try {
      for (size_t i = thread; i < pieces.size(); i += counts_.size()) count(pieces[i], counts_[thread]);
    } catch (...) {  // out of memory: an exception must not leave the thread
      errors[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (size_t thread = 1; thread < std::min(counts_.size(), pieces.size()); ++thread) {
      helpers.emplace_back(count_share, thread);
    }
    count_share(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

std::vector<PretokenCount> PretokenCounter::counts() const {
  Counts sum = counts_[0];
  for (size_t thread = 1; thread < counts_.size(); ++thread) {
    for (const auto& [pretoken, count] : counts_[thread]) sum[pretoken] += count;
  }
  std::vector<PretokenCount> sorted;
  sorted.reserve(sum.size());
  for (auto& [pretoken, count] : sum) sorted.push_back({pretoken, count});
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.pretoken < b.pretoken; });
  return sorted;
}

BpeModel train_bpe(const std::vector<PretokenCount>& counts, const BpeTrainerOptions& options,
                   const std::function<void(int64_t, int64_t)>& progress) {
  check(options);
  const int64_t wanted = options.vocab_size - 256 - static_cast<int64_t>(options.special_tokens.size());
  if (counts.empty()) fail("no text to train a tokenizer on");
  BpeModel model;
  std::unordered_map<std::string, TokenId> ids;
  for (uint8_t byte : byte_level_alphabet()) {
    ids.emplace(std::string(1, static_cast<char>(byte)), static_cast<TokenId>(model.tokens.size()));
    model.tokens.emplace_back(1, static_cast<char>(byte));
  }
  PairStatistics statistics(words_of(counts));
  while (model.vocab_size() < 256 + wanted) {
    const auto [pair, count] = statistics.most_frequent();
    if (count < std::max<int64_t>(options.min_frequency, 1)) break;
    const std::string joined =
        model.tokens[static_cast<size_t>(pair.first)] + model.tokens[static_cast<size_t>(pair.second)];
    // Two pairs may spell the same bytes: the second merge then produces the first one's token.
    const auto [place, added] = ids.emplace(joined, static_cast<TokenId>(model.tokens.size()));
    if (added) model.tokens.push_back(joined);
    model.merges.push_back({pair.first, pair.second, place->second});
    statistics.merge(pair, place->second);
    if (progress && model.merges.size() % 256 == 0) progress(static_cast<int64_t>(model.merges.size()), wanted);
  }
  if (progress) progress(static_cast<int64_t>(model.merges.size()), wanted);
  for (const std::string& name : options.special_tokens) {
    if (const auto bytes = from_printable(name); bytes && ids.contains(*bytes))
      fail("the special token {} is written in tokenizer.json as a token of the text is: choose another name", name);
    model.special.push_back(static_cast<TokenId>(model.tokens.size()));
    model.tokens.push_back(name);
  }
  return model;
}

}  // namespace partita::internal
