#include "partita/ops/embedding.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/parts.h"
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

// Both tables divided among up to four ranks, some of which may hold no row of one.
TEST(Embedding, PartsOfTheTablesAddUpToTheWhole) {
  std::mt19937_64 random_numbers(1);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 20; ++round) {
      const auto between = [&](int64_t least, int64_t most) { return random_between(least, most, random_numbers); };
      const int64_t samples = between(1, 3), length = between(1, 40), V = between(1, 60), P = between(1, 50);
      const int64_t C = between(1, 40), N = samples * length, ranks = between(1, 4);
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << samples << " x " << length << " x " << C
                                        << ", tables " << V << " and " << P << " on " << ranks);
      const at::Tensor tokens = integers({samples, length}, V, 1), positions = integers({samples, length}, P, 2);
      const at::Tensor by_token = random({V, C}, dtype, 3), by_position = random({P, C}, dtype, 4);
      const at::Tensor d_out = random({N, C}, dtype, 5), whole = nan({N, C}, dtype);
      const bool accumulate = round % 2 == 0;
      const at::Tensor d_token = accumulate ? random({V, C}, at::kFloat, 6) : nan({V, C});
      const at::Tensor d_position = accumulate ? random({P, C}, at::kFloat, 7) : nan({P, C});
      const at::Tensor d_token_parts = d_token.clone(), d_position_parts = d_position.clone();
      embedding_forward(whole, tokens, positions, by_token, by_position);
      embedding_backward({d_token, accumulate}, {d_position, accumulate}, d_out, tokens, positions);

      const at::Tensor sum = at::zeros({N, C}, at::kFloat), token_sum = at::zeros({N, C}, at::kFloat);
      const std::vector<Part> token_parts = random_parts(V, ranks, random_numbers);
      const std::vector<Part> position_parts = random_parts(P, ranks, random_numbers);
      for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
        const Part &token = token_parts[r], &position = position_parts[r];
        const TableRows token_rows{token.begin, V}, position_rows{position.begin, P};
        const at::Tensor out = nan({N, C}, dtype), alone = nan({N, C}, dtype);
        embedding_forward(out, tokens, positions, token.of(by_token), position.of(by_position), token_rows,
                          position_rows);
        embedding_forward(alone, tokens, {}, token.of(by_token), {}, token_rows);
        sum.add_(out), token_sum.add_(alone);
        embedding_backward({token.of(d_token_parts), accumulate}, {position.of(d_position_parts), accumulate}, d_out,
                           tokens, positions, token_rows, position_rows);
      }
      EXPECT_TRUE(same_bits(sum.to(dtype), whole));
      embedding_forward(whole, tokens, {}, by_token, {});
      EXPECT_TRUE(same_bits(token_sum.to(dtype), whole));
      EXPECT_TRUE(same_bits(d_token_parts, d_token));
      EXPECT_TRUE(same_bits(d_position_parts, d_position));
    }
}

TEST(Embedding, IndicesOutsideADividedTableAreNamed) {
  const at::Tensor tokens = integers({2, 3}, 9, 1), table = random({4, 8}, at::kFloat, 2), out = nan({6, 8});
  tokens.mutable_data_ptr<int32_t>()[4] = 9;
  const auto error = [&](TableRows rows, const char* message) {
    EXPECT_THAT([&] { embedding_forward(out, tokens, {}, table, {}, rows); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
    EXPECT_THAT(
        [&] {
          embedding_backward({nan({4, 8}), false}, {}, out, tokens, {}, rows);
        },
        ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  error({3, 9}, "token 9 in sample 1 at place 1 is outside 0..8");
  error({6, 9}, "4 rows from row 6 on are outside a table of 9 rows");
  error({-1, 9}, "4 rows from row -1 on are outside");
  error({1, 0}, "4 rows from row 1 on are outside a table of 4 rows");
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
