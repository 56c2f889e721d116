#include "partita/ops/attention.h"

#include <ATen/ops/cat.h>
#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "tests/ops/parts.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

struct Case {
  int64_t samples, length;
  Heads heads;
  float p = 0;
  bool packed = false;  // documents of random lengths, which do not see each other
};
const Case kCases[] = {{1, 1, {1, 1, 1}},
                       {1, 2, {1, 1, 2}},
                       {2, 7, {3, 3, 5}},
                       {1, 64, {2, 2, 16}},
                       {2, 65, {4, 2, 8}},
                       {1, 130, {6, 1, 12}},
                       {0, 5, {2, 2, 4}},
                       {2, 37, {3, 3, 8}, 0.1F},
                       {1, 131, {4, 2, 6}, 0.3F},
                       {2, 9, {2, 1, 7}, 0.5F},
                       {1, 530, {2, 1, 4}, 0.1F},
                       {2, 1, {2, 2, 4}, 0, true},
                       {2, 97, {4, 2, 6}, 0, true},
                       {2, 131, {3, 1, 8}, 0.2F, true},
                       {1, 600, {2, 1, 4}, 0.1F, true}};

const StepScalars kNow{.seed = 99, .step = 3};
const std::vector<int64_t> kSamples = {11, (int64_t{1} << 40) + 5};

Dropout dropout_of(const Case& c) {
  return {.p = c.p,
          .site = 18,
          .now = &kNow,
          .samples = sample_ids(std::span(kSamples).first(static_cast<size_t>(c.samples)))};
}

// Starts of the documents, for every position; undefined if the case has none.
at::Tensor first_keys_of(const Case& c) {
  if (!c.packed) return {};
  at::Tensor keys = at::empty({c.samples, c.length}, at::TensorOptions(at::kInt));
  std::mt19937 random(static_cast<unsigned>(c.length));
  for (int64_t s = 0; s < c.samples; ++s)
    for (int64_t t = 0, start = 0, next = 0; t < c.length; ++t) {
      if (t == next) start = t, next = t + 1 + static_cast<int64_t>(random() % 90);
      keys.mutable_data_ptr<int32_t>()[s * c.length + t] = static_cast<int32_t>(start);
    }
  return keys;
}

// Everything in fp64, one query head at a time.
struct Plain {
  Plain(const Case& all, const at::Tensor& qkv, const at::Tensor& d_out)
      : c(all), first_keys(first_keys_of(all)), x(values(qkv)), d(values(d_out)), out(d.size()), d_qkv(x.size()) {
    const PhiloxKey key = dropout_key(kNow.seed, kNow.step);
    for (int64_t s = 0; s < c.samples; ++s)
      for (int64_t h = 0; h < c.heads.heads; ++h)
        for (int64_t i = 0; i < c.length; ++i) query(s, h, i, key);
  }

  size_t at(int64_t s, int64_t t, int64_t head) const {
    return static_cast<size_t>(((s * c.length + t) * (c.heads.heads + 2 * c.heads.kv_heads) + head) *
                               c.heads.head_width);
  }

  void query(int64_t s, int64_t h, int64_t i, PhiloxKey key) {
    const auto D = static_cast<size_t>(c.heads.head_width);
    const int64_t kv = h / (c.heads.heads / c.heads.kv_heads), k_head = c.heads.heads + kv;
    const int64_t v_head = k_head + c.heads.kv_heads;
    const double scale = 1 / std::sqrt(static_cast<double>(D));
    const size_t out_at = static_cast<size_t>((s * c.length + i) * c.heads.heads + h) * D;
    Values p, m, d_p;
    double sum = 0, delta = 0;
    const int64_t from = first_keys.defined() ? first_keys.const_data_ptr<int32_t>()[s * c.length + i] : 0;
    for (int64_t j = from; j <= i; ++j) {
      double score = 0;
      for (size_t e = 0; e < D; ++e) score += x[at(s, i, h) + e] * x[at(s, j, k_head) + e];
      p.push_back(std::exp(scale * score));
      sum += p.back();
      const int64_t element = (h * c.length + i) * c.length + j;
      const PhiloxBlock block = dropout_block(key, kSamples[static_cast<size_t>(s)], 18, element / 8);
      m.push_back(dropout_keeps(block, element, dropout_threshold(c.p)) ? dropout_scale(c.p) : 0);
    }
    log_sum.push_back(std::log(sum));
    for (size_t j = 0; j < p.size(); ++j) {
      p[j] /= sum;
      d_p.push_back(0);
      for (size_t e = 0; e < D; ++e) {
        const size_t v = at(s, from + static_cast<int64_t>(j), v_head) + e;
        out[out_at + e] += m[j] * p[j] * x[v];
        d_p[j] += m[j] * d[out_at + e] * x[v];
        d_qkv[v] += m[j] * p[j] * d[out_at + e];
      }
      delta += p[j] * d_p[j];
    }
    for (size_t j = 0; j < p.size(); ++j)
      for (size_t e = 0; e < D; ++e) {
        const double d_score = scale * p[j] * (d_p[j] - delta);
        const size_t k = at(s, from + static_cast<int64_t>(j), k_head) + e, q = at(s, i, h) + e;
        d_qkv[q] += d_score * x[k];
        d_qkv[k] += d_score * x[q];
      }
  }

  const Case& c;
  at::Tensor first_keys;
  Values x, d, out, log_sum, d_qkv;
};

struct Computed {
  Computed(const Case& c, at::ScalarType dtype)
      : qkv(random({c.samples, c.length, (c.heads.heads + 2 * c.heads.kv_heads) * c.heads.head_width}, dtype, 1)),
        d_out(random({c.samples, c.length, c.heads.heads * c.heads.head_width}, dtype, 2)),
        out(nan(d_out.sizes(), dtype)),
        log_sum(nan({c.samples, c.heads.heads, c.length})),
        d_qkv(nan(qkv.sizes(), dtype)) {
    const Dropout dropout = dropout_of(c);
    const at::Tensor first_keys = first_keys_of(c);
    attention_forward(out, log_sum, qkv, c.heads, dropout, first_keys);
    attention_backward(d_qkv, d_out, out, log_sum, qkv, c.heads, dropout, first_keys);
  }
  at::Tensor qkv, d_out, out, log_sum, d_qkv;
};

TEST(Attention, ForwardAndBackwardAreTheDefinition) {
  for (at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << ", heads "
                                        << c.heads.heads << " / " << c.heads.kv_heads << " x " << c.heads.head_width
                                        << " p " << c.p << (c.packed ? " packed" : ""));
      const Computed run(c, dtype);
      const Plain plain(c, run.qkv, run.d_out);
      // bf16: besides the result, out (from which backward takes what the softmax subtracts), probabilities and their
      // gradients are rounded; fp16: the result and out
      const double relative = dtype == at::kFloat ? 1e-5 : 8 * tolerance(dtype);
      expect_close(run.out, plain.out, relative);
      expect_close(run.log_sum, plain.log_sum, dtype == at::kFloat ? 1e-5 : 1e-4);
      expect_close(run.d_qkv, plain.d_qkv, relative);
    }
}

// Each document comes out as if it were alone: the same bits, whatever stands before it and wherever it begins.
TEST(Attention, PackedDocumentsAreAsIfAlone) {
  const Heads heads{4, 2, 16};
  const int64_t lengths[] = {5, 64, 1, 90, 33, 2, 70}, row = 8 * 16, out_row = 4 * 16;
  for (at::ScalarType dtype : kDTypes) {
    int64_t total = 0;
    for (int64_t length : lengths) total += length;
    const at::Tensor qkv = random({1, total, row}, dtype, 1), d_out = random({1, total, out_row}, dtype, 2);
    const at::Tensor first_keys = at::empty({1, total}, at::TensorOptions(at::kInt));
    for (int64_t begin = 0; int64_t length : lengths) {
      first_keys.slice(1, begin, begin + length).fill_(begin);
      begin += length;
    }
    const at::Tensor out = nan(d_out.sizes(), dtype), log_sum = nan({1, 4, total}), d_qkv = nan(qkv.sizes(), dtype);
    attention_forward(out, log_sum, qkv, heads, {}, first_keys);
    attention_backward(d_qkv, d_out, out, log_sum, qkv, heads, {}, first_keys);
    for (int64_t begin = 0; int64_t length : lengths) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " document at " << begin);
      const auto part = [&, from = begin](const at::Tensor& t) { return t.slice(1, from, from + length).contiguous(); };
      const at::Tensor alone = nan({1, length, out_row}, dtype), sum = nan({1, 4, length});
      const at::Tensor d_alone = nan({1, length, row}, dtype);
      attention_forward(alone, sum, part(qkv), heads, {});
      attention_backward(d_alone, part(d_out), alone, sum, part(qkv), heads, {});
      EXPECT_TRUE(same_bits(alone, part(out)));
      EXPECT_TRUE(same_bits(sum, log_sum.slice(2, begin, begin + length).contiguous()));
      expect_close(part(d_qkv), values(d_alone), dtype == at::kFloat ? 1e-6 : tolerance(dtype));
      begin += length;
    }
  }
}

TEST(Attention, WrongFirstKeysAreNamed) {
  const at::Tensor qkv = nan({1, 3, 12}), out = nan({1, 3, 4}), sum = nan({1, 1, 3});
  const auto error = [&](const std::vector<int32_t>& first_keys, const char* message) {
    const at::Tensor keys = at::empty({1, 3}, at::TensorOptions(at::kInt));
    std::memcpy(keys.mutable_data_ptr<int32_t>(), first_keys.data(), 3 * sizeof(int32_t));
    EXPECT_THAT(
        [&] {
          attention_forward(out, sum, qkv, {1, 1, 4}, {}, keys);
        },
        ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  error({0, 2, 2}, "first_keys: 2 at position 1 of sample 0, expected 0 to 1");
  error({0, 1, 0}, "first_keys: 0 at position 2 of sample 0, expected 1 to 2");
  error({-1, 0, 0}, "first_keys: -1 at position 0");
  EXPECT_THAT(
      [&] {
        attention_forward(out, sum, qkv, {1, 1, 4}, {}, nan({1, 3}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("first_keys: dtype Float, expected Int")));
}

TEST(Attention, RepeatsBitForBitWithAnyNumberOfThreads) {
  for (at::ScalarType dtype : kDTypes) {
    const Case c{2, 131, {4, 2, 16}, 0.1F};
    const auto run = [&] { return Computed(c, dtype); };
    const Computed one = with_threads(1, run), two = with_threads(2, run);
    EXPECT_TRUE(same_bits(one.out, two.out) && same_bits(one.d_qkv, two.d_qkv) && same_bits(one.log_sum, two.log_sum));
  }
}

TEST(Attention, ASampleDoesNotDependOnItsNeighbours) {
  const Case both{2, 70, {2, 2, 8}, 0.2F}, first{1, 70, {2, 2, 8}, 0.2F};
  const Computed together(both, at::kFloat), alone(first, at::kFloat);
  EXPECT_TRUE(same_bits(together.out.slice(0, 0, 1).contiguous(), alone.out));
}

// The heads of a group, packed as attention takes them: its query heads, its key heads, its value heads.
at::Tensor heads_of(const at::Tensor& qkv, const Heads& all, const Part& kv) {
  const int64_t group = all.heads / all.kv_heads;
  const auto heads = [&](int64_t first, int64_t count) {
    return qkv.narrow(2, first * all.head_width, count * all.head_width);
  };
  return at::cat({heads(group * kv.begin, group * kv.count), heads(all.heads + kv.begin, kv.count),
                  heads(all.heads + all.kv_heads + kv.begin, kv.count)},
                 2);
}

TEST(Attention, GroupsOfHeadsAreAsAmongAll) {
  std::mt19937_64 random_numbers(1);
  for (at::ScalarType dtype : kDTypes)
    for (int round = 0; round < 12; ++round) {
      const int64_t kv_heads = random_between(1, 5, random_numbers);
      const Case c{random_between(1, 2, random_numbers),
                   random_between(1, 90, random_numbers),
                   {random_between(1, 3, random_numbers) * kv_heads, kv_heads, random_between(1, 20, random_numbers)},
                   round % 4 == 0 ? 0 : 0.3F,
                   round % 2 == 0};
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << ", heads "
                                        << c.heads.heads << " / " << kv_heads << " x " << c.heads.head_width);
      const int64_t group = c.heads.heads / kv_heads, D = c.heads.head_width;
      const Computed all(c, dtype);
      const int64_t ranks = random_between(1, kv_heads, random_numbers);
      for (const Part& kv : random_parts(kv_heads, ranks, random_numbers, 1)) {
        const Heads heads{group * kv.count, kv.count, D};
        const at::Tensor qkv = heads_of(all.qkv, c.heads, kv), d_qkv = nan(qkv.sizes(), dtype);
        const auto columns = [&](const at::Tensor& t) {
          return t.narrow(2, group * kv.begin * D, heads.heads * D).contiguous();
        };
        const at::Tensor out = nan({c.samples, c.length, heads.heads * D}, dtype);
        const at::Tensor log_sum = nan({c.samples, heads.heads, c.length});
        Dropout dropout = dropout_of(c);
        dropout.first_head = group * kv.begin;
        attention_forward(out, log_sum, qkv, heads, dropout, first_keys_of(c));
        attention_backward(d_qkv, columns(all.d_out), out, log_sum, qkv, heads, dropout, first_keys_of(c));
        EXPECT_TRUE(same_bits(out, columns(all.out)));
        EXPECT_TRUE(same_bits(log_sum, all.log_sum.narrow(1, group * kv.begin, heads.heads).contiguous()));
        EXPECT_TRUE(same_bits(d_qkv, heads_of(all.d_qkv, c.heads, kv)));
      }
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  for (at::ScalarType dtype : kDTypes) {
    const Case c{1, 20, {1, 1, 4}};
    const at::Tensor qkv = random({1, 20, 12}, dtype, 1, 0, 100), out = nan({1, 20, 4}, dtype), sum = nan({1, 1, 20});
    attention_forward(out, sum, qkv, c.heads, {});
    for (double x : values(out)) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(Attention, WrongOperandsAreNamed) {
  const at::Tensor qkv = nan({1, 4, 20}), out = nan({1, 4, 12}), sum = nan({1, 3, 4});
  Dropout dropout = dropout_of(kCases[0]);
  dropout.first_head = -1;
  EXPECT_THAT(
      [&] {
        attention_forward(out, sum, qkv, {3, 1, 4}, dropout);
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("the first head is -1")));
  EXPECT_THAT(
      [&] {
        attention_forward(out, sum, qkv, {3, 2, 4}, {});
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("3 query heads do not divide")));
  EXPECT_THAT(
      [&] {
        attention_forward(out, sum, qkv, {3, 3, 4}, {});
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("qkv: shape [1, 4, 20], expected [1, 4, 36]")));
}

}  // namespace
}  // namespace partita::internal
