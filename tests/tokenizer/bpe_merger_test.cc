#include "partita/tokenizer/bpe/bpe_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "partita/tokenizer/bpe/pair_queues.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

std::array<TokenId, 256> own_bytes() {
  std::array<TokenId, 256> tokens{};
  for (size_t byte = 0; byte < 256; ++byte) tokens[byte] = static_cast<TokenId>(byte);
  return tokens;
}

// Merges of a few letters, ranks in no sensible order.
BpeModel random_model(std::mt19937& random, std::string_view letters, MergeRank rank) {
  BpeModel model;
  model.rank = rank;
  std::map<std::string, TokenId> ids;
  for (int byte = 0; byte < 256; ++byte) model.tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<TokenId> known(letters.begin(), letters.end());
  std::set<std::pair<TokenId, TokenId>> pairs;
  for (int i = 0; i < 40; ++i) {
    const TokenId left = known[random() % known.size()], right = known[random() % known.size()];
    const std::string joined = model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)];
    if (joined.size() > 16 || !pairs.emplace(left, right).second) continue;
    const auto [found, is_new] = ids.emplace(joined, static_cast<TokenId>(model.tokens.size()));
    if (is_new) {
      model.tokens.push_back(joined);
      known.push_back(found->second);
    }
    model.merges.push_back({left, right, found->second});
  }
  if (rank == MergeRank::order) std::shuffle(model.merges.begin(), model.merges.end(), random);
  return model;
}

// The definition, read literally.
std::vector<TokenId> merge_naively(const BpeModel& model, std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  std::map<std::pair<TokenId, TokenId>, std::pair<size_t, TokenId>> ranks;
  for (size_t i = 0; i < model.merges.size(); ++i) {
    const BpeMerge& merge = model.merges[i];
    const size_t rank = model.rank == MergeRank::order ? i : static_cast<size_t>(merge.result);
    ranks[{merge.left, merge.right}] = {rank, merge.result};
  }
  for (;;) {
    const std::pair<size_t, TokenId>* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found == ranks.end() || (best != nullptr && found->second.first >= best->first)) continue;
      best = &found->second;
      at = i;
    }
    if (best == nullptr) return ids;
    ids[at] = best->second;
    ids.erase(ids.begin() + static_cast<int64_t>(at) + 1);
  }
}

TEST(BpeMerger, MatchesTheDefinition) {
  std::mt19937 random(6);
  for (int round = 0; round < 120; ++round) {
    const std::string_view letters = round % 3 == 0 ? "ab" : "abcdef";
    const BpeModel model = random_model(random, letters, round % 2 == 0 ? MergeRank::order : MergeRank::result);
    const MergeTable table(model, own_bytes());
    BpeMerger merger(table);
    for (size_t size : {0, 1, 2, 3, 15, 31, 32, 33, 34, 60, 90, 200}) {
      std::string text(size, '\0');
      // Sometimes a letter that nothing joins, where long ones are cut.
      for (char& c : text) c = random() % 40 == 0 ? 'z' : letters[random() % letters.size()];
      std::vector<TokenId> ids = {7};
      merger.merge(text, ids);
      auto expected = merge_naively(model, text);
      expected.insert(expected.begin(), 7);
      ASSERT_EQ(ids, expected) << text;
    }
  }
}

TEST(BpeMerger, MergesLongOnesTheSame) {
  std::mt19937 random(7);
  for (int round = 0; round < 2; ++round) {
    const BpeModel model = random_model(random, "abc", round % 2 == 0 ? MergeRank::order : MergeRank::result);
    const MergeTable table(model, own_bytes());
    BpeMerger merger(table);
    for (size_t size : {4096, 4097, 5003}) {
      std::string text(size, '\0');
      for (char& c : text) c = "abc"[random() % 3];
      std::vector<TokenId> ids;
      merger.merge(text, ids);
      ASSERT_EQ(ids, merge_naively(model, text));
    }
  }
}

template <class Queue>
void expect_order(Queue queue, uint32_t ranks) {
  std::mt19937 random(8);
  std::multiset<std::pair<uint32_t, uint32_t>> expected;
  for (int step = 0; step < 20'000; ++step) {
    // Many of one rank at first, then ranks below and above the last.
    if (random() % 2 == 0 || step < 300) {
      const auto rank = static_cast<uint32_t>(step < 300 ? 5 : random() % ranks);
      const auto place = static_cast<uint32_t>(random() % 1000);
      queue.push(rank, place);
      expected.emplace(rank, place);
      continue;
    }
    const auto next = queue.pop();
    ASSERT_EQ(next.has_value(), !expected.empty());
    if (!next) continue;
    ASSERT_EQ(std::pair(next->rank, next->place), *expected.begin());
    expected.erase(expected.begin());
  }
  EXPECT_GT(expected.size(), 10U);
}

TEST(PairQueues, LowestRankThenLeftmost) {
  expect_order(PairHeap(), 130);
  expect_order(RankLists(130), 130);
  expect_order(RankLists(64), 64);
}

TEST(MergeTable, RanksResultsAndJoins) {
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte) model.tokens.emplace_back(1, static_cast<char>(byte));
  model.tokens.insert(model.tokens.end(), {"ab", "abc"});
  model.merges = {{256, 'c', 257}, {'a', 'b', 256}};
  const MergeTable table(model, own_bytes());
  EXPECT_EQ(table.rank('a', 'b'), 1U);
  EXPECT_EQ(table.byte_rank('a', 'b'), 1U);
  EXPECT_EQ(table.rank(256, 'c'), 0U);
  EXPECT_EQ(table.rank('b', 'c'), MergeTable::kNone);
  EXPECT_EQ(table.byte_rank('b', 'a'), MergeTable::kNone);
  EXPECT_EQ(table.rank(257, 257), MergeTable::kNone);
  EXPECT_EQ(table.result(0), 257);
  EXPECT_EQ(table.ranks(), 2U);
  EXPECT_TRUE(table.joins('a', 'b'));
  EXPECT_TRUE(table.joins('b', 'c'));  // of "ab" and "c"
  EXPECT_FALSE(table.joins('c', 'a'));
  model.rank = MergeRank::result;
  const MergeTable by_result(model, own_bytes());
  EXPECT_EQ(by_result.rank('a', 'b'), 256U);
  EXPECT_EQ(by_result.result(256), 256);
  EXPECT_EQ(by_result.ranks(), 258U);
}

TEST(MergeTable, SaysWhatDoesNotFit) {
  BpeModel model;
  model.tokens.resize(3'000'000);
  EXPECT_THAT(error_message([&] { MergeTable(model, own_bytes()); }), HasSubstr("vocabulary of 3000000 tokens"));
}

}  // namespace
}  // namespace partita::internal
