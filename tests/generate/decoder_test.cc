#include "partita/generate/decoder.h"

#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "partita/comm/world.h"
#include "partita/train/build_model.h"

namespace partita::internal {
namespace {

ModelConfig small_model(ModelKind kind) {
  ModelConfig model{.kind = kind,
                    .layers = 3,
                    .hidden_size = 24,
                    .heads = 4,
                    .ffn_hidden_size = 40,
                    .vocab_size = 61,
                    .max_length = 13,
                    .init_std = 0.3};
  if (kind == ModelKind::llama) model.kv_heads = 2;
  return model;
}

class DecoderTest : public testing::TestWithParam<ModelKind> {
 protected:
  DecoderTest() { engine_->initialize(3); }

  // All positions computed anew.
  std::vector<float> recomputed(std::span<const int32_t> tokens) {
    std::vector<int32_t> ids(tokens.begin(), tokens.end()), positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    const auto length = static_cast<int64_t>(ids.size());
    const Batch batch{.tokens = at::from_blob(ids.data(), {1, length}, at::kInt),
                      .labels = {},
                      .positions = at::from_blob(positions.data(), {1, length}, at::kInt),
                      .samples = {0},
                      .first_keys = {}};
    return values(engine_->logits(batch, model_.vocab_size));
  }
  static std::vector<float> values(const at::Tensor& logits) {
    return {logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel()};
  }
  static int32_t likeliest(const std::vector<float>& logits) {
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  }

  void expect_recomputed(const at::Tensor& logits, std::span<const int32_t> context) {
    const std::vector<float> expected = recomputed(context), found = values(logits);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 2e-6 * expected[static_cast<size_t>(likeliest(expected))])
          << "token " << i << " behind " << context.size();
    }
  }

  ModelConfig model_ = small_model(GetParam());
  World world_ = World::connect({});
  Mesh mesh_{world_};
  std::unique_ptr<Engine> engine_ = build_inference_engine(model_, {}, DType::fp32, {.samples = 1, .length = 1}, mesh_);
};

// Greedy text, beyond the model's positions, equals that of logits that are computed anew for every token.
TEST_P(DecoderTest, GreedyTextIsTheRecomputedOne) {
  const std::vector<int32_t> prompt = {5, 60, 0, 17};
  Decoder decoder(*engine_, model_, DType::fp32, 100);
  at::Tensor logits = decoder.append(prompt);
  std::vector<int32_t> text = prompt;
  std::vector<size_t> contexts;
  for (int i = 0; i < 30; ++i) {
    const auto context = decoder.context();
    contexts.push_back(context.size());
    EXPECT_TRUE(std::equal(context.begin(), context.end(), text.end() - static_cast<int64_t>(context.size())));
    expect_recomputed(logits, context);
    const int32_t token = likeliest(values(logits));
    EXPECT_EQ(token, likeliest(recomputed(context)));
    text.push_back(token);
    logits = decoder.append({&token, 1});
  }
  EXPECT_THAT(contexts, testing::ElementsAre(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 7, 8, 9, 10, 11, 12, 13, 7, 8, 9, 10, 11,
                                             12, 13, 7, 8, 9, 10, 11, 12));
  EXPECT_GT(std::set<int32_t>(text.begin(), text.end()).size(), 5U);  // not one token over and over
}

// A text may come in pieces of any length.
TEST_P(DecoderTest, PiecesOfTextAreTheText) {
  std::mt19937 random(1);
  std::vector<int32_t> text(13);
  for (int32_t& token : text) token = static_cast<int32_t>(random() % 61);
  for (const std::vector<size_t>& pieces : {std::vector<size_t>{13}, {1, 12}, {12, 1}, {3, 1, 5, 4}}) {
    Decoder decoder(*engine_, model_, DType::fp32, 13);
    size_t at = 0;
    for (const size_t piece : pieces) {
      const at::Tensor logits = decoder.append(std::span(text).subspan(at, piece));
      at += piece;
      expect_recomputed(logits, std::span(text).first(at));
    }
  }
}

TEST_P(DecoderTest, APromptBeyondTheModelIsItsLastHalf) {
  std::vector<int32_t> prompt(40);
  std::iota(prompt.begin(), prompt.end(), 2);
  Decoder decoder(*engine_, model_, DType::fp32, 100);
  const at::Tensor logits = decoder.append(prompt);
  EXPECT_THAT(decoder.context(), testing::ElementsAre(35, 36, 37, 38, 39, 40, 41));
  expect_recomputed(logits, decoder.context());
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderTest, testing::Values(ModelKind::gpt2, ModelKind::llama),
                         [](const auto& model) { return model.param == ModelKind::gpt2 ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace partita::internal
