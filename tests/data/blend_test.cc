// Blends against megatron-core's own (tests/golden/make_blend.py), and properties of all blends.
#include "partita/data/blend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "partita/base/file.h"
#include "partita/data/blended_dataset.h"
#include "partita/data/indexed_writer.h"
#include "tests/data/sample.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

nlohmann::json golden() { return nlohmann::json::parse(read_file(PARTITA_SOURCE_DIR "/tests/golden/blend.json")); }

std::string refusal(const std::vector<std::string>& items) {
  return error_message([&] { return parse_blend(items); });
}

TEST(Blend, IsWeightsAndPrefixesInTurn) {
  const auto parts = parse_blend(std::vector<std::string>{"0.7", "data/a", "3e-1", "b.c"});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].weight, 0.7);
  EXPECT_EQ(parts[0].prefix, "data/a");
  EXPECT_EQ(parts[1].weight, 0.3);
  const auto equal = parse_blend(std::vector<std::string>{"a", "7b"});
  ASSERT_EQ(equal.size(), 2U);
  EXPECT_FALSE(equal[0].weight || equal[1].weight);
  EXPECT_THAT(refusal({"0.7", "a", "0.3"}), HasSubstr("no prefix follows the weight 0.3"));
  EXPECT_THAT(refusal({"0.7", "a", "b"}), HasSubstr("\"a\" has a weight, \"b\" has not"));
  EXPECT_THAT(refusal({"a", "1", "b"}), HasSubstr("\"a\" has not a weight, \"b\" has"));
  EXPECT_THAT(refusal({"1", "2", "a"}), HasSubstr("weight 1 is followed by the number 2"));
  EXPECT_THAT(refusal({"1", "a", "2", "a"}), HasSubstr("\"a\" is given twice"));
  for (const char* weight : {"0", "-1", "inf", "nan"})
    EXPECT_THAT(refusal({weight, "a"}), HasSubstr("more than 0 expected")) << weight;
}

TEST(Blend, OrdersAreMegatrons) {
  for (const auto& blend : golden().at("blends")) {
    const auto given = blend.at("weights").get<std::vector<double>>();
    const int64_t samples = blend.at("samples");
    const std::vector<double> weights = normalized_weights(given);
    EXPECT_EQ(blend_size(weights, samples), blend.at("size"));
    std::vector<int64_t> asked;
    for (const double weight : weights) asked.push_back(part_samples(weight, samples));
    EXPECT_EQ(asked, blend.at("asked").get<std::vector<int64_t>>());
    const BlendIndex index = build_blend_index(weights, blend.at("size"));
    EXPECT_EQ(index.dataset, blend.at("dataset").get<std::vector<int16_t>>()) << given.size() << " parts";
    EXPECT_EQ(index.sample, blend.at("sample").get<std::vector<int64_t>>());
  }
}

TEST(Blend, SharesAreKeptAtEveryPlace) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<double> given(1 + random() % 9);
    for (double& weight : given) weight = 0.01 + static_cast<double>(random() % 1000);
    const std::vector<double> weights = normalized_weights(given);
    const auto size = static_cast<int64_t>(1 + random() % 500);
    const BlendIndex index = build_blend_index(weights, size), longer = build_blend_index(weights, size + 57);
    ASSERT_EQ(static_cast<int64_t>(index.dataset.size()), size);
    std::vector<int64_t> taken(given.size());
    for (size_t k = 0; k < index.dataset.size(); ++k) {
      const auto d = static_cast<size_t>(index.dataset[k]);
      ASSERT_EQ(index.sample[k], taken[d]++);  // in order, none left out
      ASSERT_EQ(longer.dataset[k], index.dataset[k]);
      for (size_t e = 0; e < given.size(); ++e) {
        ASSERT_LT(std::abs(static_cast<double>(taken[e]) - weights[e] * static_cast<double>(k + 1)),
                  static_cast<double>(given.size()) + 1);
      }
    }
  }
}

class Blends : public testing::Test {
 protected:
  // Token t of sequence s of dataset d is 10000 d + 100 s + t.
  std::shared_ptr<const IndexedDataset> write(int32_t d, const std::vector<int32_t>& lengths) {
    IndexedWriter writer(folder_ / std::to_string(d), TokenType::i32);
    for (size_t s = 0; s < lengths.size(); ++s) {
      std::vector<int32_t> tokens(static_cast<size_t>(lengths[s]));
      std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(10000 * d + 100 * static_cast<int32_t>(s)));
      writer.add_document(tokens);
    }
    writer.close();
    return std::make_shared<const IndexedDataset>(folder_ / std::to_string(d));
  }
  std::vector<BlendedDataset::Part> parts(const std::vector<double>& weights,
                                          const std::vector<std::vector<int32_t>>& lengths, const char* split) {
    std::vector<BlendedDataset::Part> found;
    for (size_t d = 0; d < weights.size(); ++d) {
      const auto tokens = write(static_cast<int32_t>(d), lengths[d]);
      found.push_back({weights[d], tokens, split_range(parse_split(split), SplitName::train, tokens->sequences()), {}});
    }
    return found;
  }
  TemporaryDirectory folder_;
};

TEST_F(Blends, EveryIndexIsMegatrons) {
  for (const auto& whole : golden().at("wholes")) {
    const auto weights = whole.at("weights").get<std::vector<double>>();
    const std::string split = whole.at("split");
    const BlendedDataset blend(
        parts(weights, whole.at("lengths").get<std::vector<std::vector<int32_t>>>(), split.c_str()),
        {.split = "train",
         .sequence_length = whole.at("sequence_length"),
         .samples = whole.at("samples"),
         .seed = whole.at("seed")},
        {});
    const auto same = [](auto found, const nlohmann::json& expected) {
      EXPECT_EQ((std::vector<int64_t>(found.begin(), found.end())), expected.get<std::vector<int64_t>>());
    };
    same(blend.datasets(), whole.at("dataset"));
    same(blend.samples(), whole.at("sample"));
    for (size_t d = 0; d < weights.size(); ++d) {
      const auto& part = whole.at("parts").at(d);
      const GptIndexView& index = blend.parts()[d].index();
      same(index.sequences, part.at("sequences"));
      same(index.shuffle, part.at("shuffle"));
      std::vector<int64_t> starts;
      for (const TokenPosition& start : index.starts) starts.insert(starts.end(), {start.entry, start.offset});
      same(starts, part.at("starts"));
    }
  }
}

// Whatever the plans: the samples of the shorter one stay, and all of a plan's samples are there.
TEST_F(Blends, ProlongedBlendsBeginAsTheShorterOnes) {
  std::mt19937 random(17);
  int oversampled = 0;
  for (int round = 0; round < 25; ++round) {
    const size_t count = 1 + random() % 12;
    std::vector<double> weights(count);
    std::vector<std::vector<int32_t>> lengths(count);
    for (size_t d = 0; d < count; ++d) {
      // Many small parts, whose shares are rounded up, beside a large one, which then is taken from more often.
      weights[d] = round % 2 == 0 && d == 0 ? 500 : 0.01 + static_cast<double>(random() % 100);
      for (auto n = 1 + random() % 9; n > 0; --n) lengths[d].push_back(static_cast<int32_t>(random() % 20));
      lengths[d].push_back(6);
    }
    const auto of = parts(weights, lengths, "1");
    const GptIndexSpec spec{.split = "train", .sequence_length = 5, .samples = static_cast<int64_t>(random() % 90) + 1};
    std::vector<int64_t> plans;
    std::unique_ptr<BlendedDataset> shorter;
    for (int plan = 0; plan < 4; ++plan) {
      auto longer = std::make_unique<BlendedDataset>(of, spec, GptDataset::Options{Documents::joined, {}, plans});
      const int64_t wanted = plans.empty() ? spec.samples : plans.back();
      ASSERT_GE(longer->size(), wanted);
      for (int64_t k = 0; k < longer->size(); ++k) (void)read_sample(*longer, k);  // none is missing in its part
      for (int64_t k = 0; shorter && k < shorter->size(); ++k)
        ASSERT_EQ(read_sample(*longer, k), read_sample(*shorter, k)) << k;
      for (size_t d = 0; plan == 0 && d < count; ++d) {
        const int64_t asked = part_samples(normalized_weights(weights)[d], spec.samples);
        oversampled += std::ranges::count(longer->datasets(), static_cast<int16_t>(d)) > asked ? 1 : 0;
      }
      shorter = std::move(longer);
      plans.push_back(wanted + static_cast<int64_t>(random() % 150) + 1);
    }
  }
  EXPECT_GT(oversampled, 0) << "no part went beyond its margin: the test does not see that case";
}

TEST_F(Blends, NameWhatIsWrong) {
  EXPECT_THAT(error_message([&] { BlendedDataset({}, {.sequence_length = 4, .samples = 3}, {}); }),
              HasSubstr("no datasets"));
  const auto of = parts({1, 2}, {{50, 50}, {2, 1}}, "1");
  EXPECT_THAT(error_message([&] { BlendedDataset(of, {.sequence_length = 4, .samples = 3}, {}); }),
              AllOf(HasSubstr("has 3 tokens in 2 sequences"), HasSubstr("one sample needs 5")));
  const BlendedDataset blend(parts({1, 2}, {{50, 50}, {20, 10}}, "1"), {.sequence_length = 4, .samples = 3}, {});
  EXPECT_THAT(error_message([&] { read_sample(blend, blend.size()); }), HasSubstr("of the blend asked for"));
  EXPECT_THAT(error_message([&] { read_sample(blend, -1); }), HasSubstr("sample -1"));
}

}  // namespace
}  // namespace partita::internal
