#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "partita/ops/attention.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

struct Case {
  int64_t samples, length;
  Heads heads;
};
const Case kCases[] = {{1, 1, {1, 1, 1}},    {2, 7, {3, 3, 5}}, {1, 64, {2, 2, 16}}, {2, 67, {4, 2, 8}},
                       {1, 130, {6, 1, 12}}, {0, 5, {2, 2, 4}}, {1, 150, {8, 4, 64}}};

int64_t row(Heads h) { return (h.heads + 2 * h.kv_heads) * h.head_width; }

// Parts of these lengths, in turn, until `length` positions are read.
struct Read {
  Read(const Case& c, const at::Tensor& qkv, std::vector<int64_t> parts)
      : keys(nan({c.samples, c.heads.kv_heads, c.length + 3, c.heads.head_width}, qkv.scalar_type())),
        values(keys.clone()),
        out(nan({c.samples, c.length, c.heads.heads * c.heads.head_width}, qkv.scalar_type())) {
    for (int64_t past = 0, turn = 0; past < c.length; ++turn) {
      const int64_t n = std::min(parts[static_cast<size_t>(turn) % parts.size()], c.length - past);
      const at::Tensor part = nan({c.samples, n, c.heads.heads * c.heads.head_width}, qkv.scalar_type());
      attention_cached(part, qkv.slice(1, past, past + n).contiguous(), keys, values, past, c.heads);
      out.slice(1, past, past + n).copy_(part);
      past += n;
    }
  }
  at::Tensor keys, values, out;
};

TEST(AttentionCached, InAnyPartsIsAttentionOfTheWhole) {
  for (at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      const at::Tensor qkv = random({c.samples, c.length, row(c.heads)}, dtype, 1);
      // The whole in fp32, so that the only rounding is that of what is compared with it.
      const at::Tensor wide = qkv.to(at::kFloat),
                       whole = nan({c.samples, c.length, c.heads.heads * c.heads.head_width});
      attention_forward(whole, {}, wide, c.heads, {});
      for (const std::vector<int64_t>& parts : {std::vector<int64_t>{1}, {c.length}, {2, 1}, {17, 1}, {40}, {15, 33}}) {
        SCOPED_TRACE(::testing::Message()
                     << at::toString(dtype) << " " << c.samples << " x " << c.length << ", heads " << c.heads.heads
                     << " / " << c.heads.kv_heads << " x " << c.heads.head_width << ", parts from " << parts.front());
        const Read read(c, qkv, parts);
        // bf16: products of tiles round the probabilities too
        expect_close(read.out, values(whole), dtype == at::kFloat ? 1e-5 : 4 * tolerance(dtype));
      }
    }
}

TEST(AttentionCached, KeepsKeysAndValuesAndWritesNothingBehindThem) {
  for (at::ScalarType dtype : kDTypes) {
    const Case c{2, 9, {4, 2, 8}};
    const at::Tensor qkv = random({2, 9, row(c.heads)}, dtype, 1);
    const Read read(c, qkv, {4, 1});
    const at::Tensor heads = qkv.view({2, 9, 8, 8}).transpose(1, 2);  // [samples, q q q q k k v v, length, width]
    EXPECT_TRUE(same_bits(read.keys.slice(2, 0, 9).contiguous(), heads.slice(1, 4, 6).contiguous()));
    EXPECT_TRUE(same_bits(read.values.slice(2, 0, 9).contiguous(), heads.slice(1, 6, 8).contiguous()));
    for (double v : values(read.keys.slice(2, 9, 12))) EXPECT_TRUE(std::isnan(v));
    for (double v : values(read.values.slice(2, 9, 12))) EXPECT_TRUE(std::isnan(v));
  }
}

TEST(AttentionCached, DoesNotDependOnThreads) {
  const Case c{2, 70, {4, 2, 16}};
  const at::Tensor qkv = random({2, 70, row(c.heads)}, at::kFloat, 1);
  const auto run = [&] { return Read(c, qkv, {20, 1, 5}).out; };
  EXPECT_TRUE(same_bits(with_threads(1, run), with_threads(2, run)));
}

TEST(AttentionCached, WrongOperandsAreNamed) {
  const Heads heads{2, 1, 4};
  const at::Tensor qkv = nan({1, 3, 16}), out = nan({1, 3, 8}), keys = nan({1, 1, 5, 4}), values = nan({1, 1, 5, 4});
  const auto error = [&](const at::Tensor& k, const at::Tensor& v, int64_t past, const char* message) {
    EXPECT_THAT([&] { attention_cached(out, qkv, k, v, past, heads); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  error(keys, values, 3, "3 positions behind 3 in memory for 5");
  error(keys, nan({1, 1, 6, 4}), 0, "values: shape [1, 1, 6, 4], expected [1, 1, 5, 4]");
  error(nan({1, 2, 5, 4}), values, 0, "keys: shape [1, 2, 5, 4], expected [1, 1, 5, 4]");
  error(nan({1, 1, 5, 4}, at::kHalf), values, 0, "keys: dtype Half, expected Float");
}

}  // namespace
}  // namespace partita::internal
