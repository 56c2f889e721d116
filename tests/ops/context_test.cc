// Operations on one rank's pieces of sequences give what they give on whole sequences.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"
#include "tests/ops/dropout_reference.h"
#include "tests/ops/parts.h"

namespace partita::internal {
namespace {

using namespace reference;

// A rank's pieces along a dimension.
at::Tensor pieces_of(const at::Tensor& whole, int64_t dim, const ContextSplit& split) {
  if (!whole.defined()) return whole;
  const int64_t run = whole.size(dim) / (2 * split.ranks);
  const auto [first, second] = split.pieces(split.rank);
  return at::cat({whole.narrow(dim, first * run, run), whole.narrow(dim, second * run, run)}, dim);
}

struct Case {
  int64_t samples, run;  // tokens of a piece
  int ranks;
  Heads heads;
  float p = 0;
  bool packed = false;
};
const Case kCases[] = {
    {1, 1, 2, {1, 1, 2}},           {2, 3, 2, {3, 3, 5}, 0.3F},        {2, 5, 3, {4, 2, 6}, 0.1F, true},
    {1, 65, 2, {6, 1, 12}},         {2, 33, 4, {4, 2, 8}, 0.2F, true}, {1, 150, 2, {2, 1, 4}, 0.1F},
    {1, 97, 3, {2, 2, 16}, 0, true}};

at::Tensor first_keys_of(const Case& c) {
  if (!c.packed) return {};
  const int64_t length = 2 * c.ranks * c.run;
  at::Tensor keys = at::empty({c.samples, length}, at::TensorOptions(at::kInt));
  std::mt19937 random(7);
  for (int64_t s = 0; s < c.samples; ++s)
    for (int64_t t = 0, start = 0, next = 0; t < length; ++t) {
      if (t == next) start = t, next = t + 1 + static_cast<int64_t>(random() % static_cast<unsigned>(3 * c.run));
      keys.mutable_data_ptr<int32_t>()[s * length + t] = static_cast<int32_t>(start);
    }
  return keys;
}

TEST(ContextAttention, PiecesAreAsInTheWhole) {
  for (at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.ranks << " x 2 x "
                                        << c.run << ", heads " << c.heads.heads << " / " << c.heads.kv_heads << " x "
                                        << c.heads.head_width << " p " << c.p << (c.packed ? " packed" : ""));
      const int64_t D = c.heads.head_width, length = 2 * c.ranks * c.run, q = c.heads.heads * D,
                    kv = 2 * c.heads.kv_heads * D;
      const double close = dtype == at::kFloat ? 2e-6 : 4 * tolerance(dtype);
      const Dropout dropout = reference::dropout_of(c.p, c.samples);
      const at::Tensor qkv = random({c.samples, length, q + kv}, dtype, 1),
                       d_out = random({c.samples, length, q}, dtype, 2), out = nan(d_out.sizes(), dtype),
                       log_sum = nan({c.samples, c.heads.heads, length}), d_qkv = nan(qkv.sizes(), dtype);
      attention_forward(out, log_sum, qkv, c.heads, dropout, first_keys_of(c));
      attention_backward(d_qkv, d_out, out, log_sum, qkv, c.heads, dropout, first_keys_of(c));
      const at::Tensor sum = at::zeros({c.samples, length, kv});
      for (int rank = 0; rank < c.ranks; ++rank) {
        const ContextSplit split{.rank = rank, .ranks = c.ranks};
        const WholeKeys keys{.keys_values = qkv.narrow(2, q, kv).contiguous(), .split = split};
        const at::Tensor own = pieces_of(qkv, 1, split), d_own = pieces_of(d_out, 1, split),
                         found = nan(d_own.sizes(), dtype), sums = nan({c.samples, c.heads.heads, 2 * c.run}),
                         d_found = nan(own.sizes(), dtype), d_keys = nan(keys.keys_values.sizes(), dtype),
                         first_keys = pieces_of(first_keys_of(c), 1, split);
        attention_forward(found, sums, own, c.heads, dropout, first_keys, keys);
        attention_backward(d_found, d_own, found, sums, own, c.heads, dropout, first_keys, keys, d_keys);
        expect_close(found, values(pieces_of(out, 1, split)), close);
        expect_close(sums, values(pieces_of(log_sum, 2, split)), close);
        expect_close(d_found.narrow(2, 0, q).contiguous(),
                     values(pieces_of(d_qkv, 1, split).narrow(2, 0, q).contiguous()), close);
        EXPECT_TRUE(d_found.narrow(2, q, kv).isnan().all().item<bool>());
        sum.add_(d_keys.to(at::kFloat));
      }
      expect_close(sum, values(d_qkv.narrow(2, q, kv).contiguous()), dtype == at::kFloat ? 2e-6 : 8 * tolerance(dtype));
    }
}

TEST(ContextAttention, WrongOperandsAreNamed) {
  const at::Tensor qkv = nan({1, 4, 12}), out = nan({1, 4, 4}), sum = nan({1, 1, 4});
  const auto error = [&](const at::Tensor& keys_values, const ContextSplit& split, const char* message) {
    EXPECT_THAT(
        [&] {
          attention_forward(out, sum, qkv, {1, 1, 4}, {}, {}, {.keys_values = keys_values, .split = split});
        },
        ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  error({}, {.rank = 0, .ranks = 2}, "queries of one of 2 ranks: 4 of each sample, without keys of whole sequences");
  error(nan({1, 4, 8}), {.rank = 0, .ranks = 1}, "one of 1 ranks: 4 of each sample, with keys");
  error(nan({1, 9, 8}), {.rank = 0, .ranks = 2}, "keys_values: shape [1, 9, 8], expected [1, 8, 8]");
  EXPECT_THAT(
      [&] {
        attention_forward(nan({1, 3, 4}), nan({1, 1, 3}), nan({1, 3, 12}), {1, 1, 4}, {}, {},
                          {.keys_values = nan({1, 6, 8}), .split = {.rank = 0, .ranks = 2}});
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("queries of one of 2 ranks: 3 of each sample")));
}

// Also parts of the rows of a rank, as sequence parallelism divides them.
TEST(ContextDropout, PiecesAreAsInTheWhole) {
  std::mt19937_64 random_numbers(3);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 20; ++round) {
      const int64_t samples = random_between(1, 4, random_numbers), run = random_between(1, 9, random_numbers),
                    C = random_between(1, 70, random_numbers);
      const auto ranks = static_cast<int>(random_between(2, 5, random_numbers));
      const int64_t length = 2 * ranks * run, rows = 2 * samples * run;
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << samples << " x " << length << " x " << C);
      const at::Tensor in = random({samples * length, C}, dtype, 1), out = nan(in.sizes(), dtype);
      dropout_forward(out, in, reference::dropout_of(0.3F, samples));
      for (int rank = 0; rank < ranks; ++rank) {
        const ContextSplit split{.rank = rank, .ranks = ranks};
        const auto own = [&](const at::Tensor& all) {
          return pieces_of(all.view({samples, length, C}), 1, split).view({rows, C});
        };
        const at::Tensor mine = own(in), found = nan(mine.sizes(), dtype);
        for (const Part& part : random_parts(rows, random_between(1, 3, random_numbers), random_numbers)) {
          Dropout dropout = dropout_of_part(reference::dropout_of(0.3F, samples), part.begin, rows);
          dropout.context = split;
          dropout_forward(part.of(found), part.of(mine), dropout);
        }
        EXPECT_TRUE(same_bits(found, own(out)));
      }
    }
  Dropout dropout = reference::dropout_of(0.5F, 4);
  dropout.context = {.rank = 0, .ranks = 2};
  EXPECT_THAT(
      [&] {
        dropout_forward(nan({12, 3}), nan({12, 3}), dropout);
      },
      ::testing::ThrowsMessage<Error>(
          ::testing::HasSubstr("3 rows of each sample on one of 2 context-parallel ranks")));
}

}  // namespace
}  // namespace partita::internal
