#include "partita/ops/embedding.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

struct Case {
  int64_t samples, length, V, P, C;
};
const Case kCases[] = {{1, 1, 1, 1, 1}, {2, 5, 7, 5, 3}, {3, 17, 100, 32, 33}, {0, 4, 5, 4, 8}, {2, 40, 3, 64, 130}};

TEST(Embedding, ForwardAddsTwoRows) {
  for (at::ScalarType dtype : kDTypes)
    for (const auto& [samples, length, V, P, C] : kCases) {
      const at::Tensor tokens = integers({samples, length}, V, 1), positions = integers({samples, length}, P, 2);
      const at::Tensor by_token = random({V, C}, dtype, 3), by_position = random({P, C}, dtype, 4);
      const at::Tensor out = nan({samples * length, C}, dtype), alone = nan({samples * length, C}, dtype);
      embedding_forward(out, tokens, positions, by_token, by_position);
      embedding_forward(alone, tokens, {}, by_token, {});
      const Values t = values(tokens), p = values(positions), a = values(by_token), b = values(by_position);
      Values expected, expected_alone;
      for (size_t row = 0; row < t.size(); ++row)
        for (int64_t c = 0; c < C; ++c) {
          expected_alone.push_back(a[static_cast<size_t>(static_cast<int64_t>(t[row]) * C + c)]);
          expected.push_back(expected_alone.back() + b[static_cast<size_t>(static_cast<int64_t>(p[row]) * C + c)]);
        }
      expect_close(out, expected, tolerance(dtype));
      EXPECT_EQ(values(alone), expected_alone);
    }
}

TEST(Embedding, BackwardSumsTheReadersOfEachRow) {
  for (at::ScalarType dtype : kDTypes)
    for (const auto& [samples, length, V, P, C] : kCases)
      for (const bool accumulate : {false, true}) {
        const at::Tensor tokens = integers({samples, length}, V, 1), positions = integers({samples, length}, P, 2);
        const at::Tensor d_out = random({samples * length, C}, dtype, 3);
        const Target d_token{accumulate ? random({V, C}, at::kFloat, 4) : nan({V, C}), accumulate};
        const Target d_position{accumulate ? random({P, C}, at::kFloat, 5) : nan({P, C}), accumulate};
        const auto start = [&](const Target& target) {
          return accumulate ? values(target.gradient) : Values(static_cast<size_t>(target.gradient.numel()));
        };
        Values by_token = start(d_token), by_position = start(d_position);
        const Values d = values(d_out), t = values(tokens), p = values(positions);
        for (size_t row = 0; row < t.size(); ++row)
          for (size_t c = 0; c < static_cast<size_t>(C); ++c) {
            by_token[static_cast<size_t>(t[row]) * static_cast<size_t>(C) + c] += d[row * static_cast<size_t>(C) + c];
            by_position[static_cast<size_t>(p[row]) * static_cast<size_t>(C) + c] +=
                d[row * static_cast<size_t>(C) + c];
          }
        embedding_backward(d_token, d_position, d_out, tokens, positions);
        expect_close(d_token.gradient, by_token, 1e-5);
        expect_close(d_position.gradient, by_position, 1e-5);
      }
}

TEST(Embedding, FrozenTablesAreLeftAlone) {
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor tokens = integers({2, 40}, 9, 1), positions = integers({2, 40}, 7, 2);
    const at::Tensor d_out = random({80, 33}, dtype, 3);
    const Target both_token{nan({9, 33}), false}, both_position{nan({7, 33}), false};
    embedding_backward(both_token, both_position, d_out, tokens, positions);
    const Target token{nan({9, 33}), false}, position{nan({7, 33}), false};
    embedding_backward(token, {}, d_out, tokens, {});  // no table of positions at all
    embedding_backward({}, position, d_out, tokens, positions);
    EXPECT_TRUE(same_bits(token.gradient, both_token.gradient));
    EXPECT_TRUE(same_bits(position.gradient, both_position.gradient));
    embedding_backward({}, {}, d_out, tokens, {});
  }
}

TEST(Embedding, ThreadsDoNotChangeABit) {
  const at::Tensor tokens = integers({4, 300}, 50, 1), d_out = random({1200, 65}, at::kFloat, 2);
  const auto run = [&] {
    const Target d_token{nan({50, 65}), false};
    embedding_backward(d_token, {}, d_out, tokens, {});
    return d_token.gradient;
  };
  EXPECT_TRUE(same_bits(with_threads(1, run), with_threads(2, run)));
}

TEST(Embedding, IndicesOutsideTheTablesAreNamedAndNothingIsWritten) {
  const at::Tensor tokens = integers({2, 3}, 5, 1), positions = integers({2, 3}, 4, 2);
  const at::Tensor by_token = random({5, 8}, at::kFloat, 3), by_position = random({4, 8}, at::kFloat, 4);
  const at::Tensor out = at::full({6, 8}, 9.0, at::TensorOptions(at::kFloat));
  const auto run = [&] { embedding_forward(out, tokens, positions, by_token, by_position); };
  for (const int32_t bad : {-1, 5}) {
    tokens.mutable_data_ptr<int32_t>()[4] = bad;
    EXPECT_THAT(run, ::testing::ThrowsMessage<Error>(
                         ::testing::HasSubstr("token " + std::to_string(bad) + " in sample 1 at place 1")));
  }
  tokens.mutable_data_ptr<int32_t>()[4] = 4;
  positions.mutable_data_ptr<int32_t>()[2] = 4;
  EXPECT_THAT(run, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("position 4 in sample 0 at place 2")));
  EXPECT_EQ(values(out), Values(48, 9.0));
}

}  // namespace
}  // namespace partita::internal
