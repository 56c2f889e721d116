#include "partita/ops/attention.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "tests/ops/reference.h"

namespace partita {
namespace {

using namespace reference;

struct Case {
  int64_t samples, length;
  Heads heads;
  float p = 0;
};
const Case kCases[] = {{1, 1, {1, 1, 1}},       {1, 2, {1, 1, 2}},        {2, 7, {3, 3, 5}},
                       {1, 64, {2, 2, 16}},     {2, 65, {4, 2, 8}},       {1, 130, {6, 1, 12}},
                       {0, 5, {2, 2, 4}},       {2, 37, {3, 3, 8}, 0.1F}, {1, 131, {4, 2, 6}, 0.3F},
                       {2, 9, {2, 1, 7}, 0.5F}, {1, 530, {2, 1, 4}, 0.1F}};

const StepScalars kNow{.seed = 99, .step = 3};
const std::vector<int64_t> kSamples = {11, (int64_t{1} << 40) + 5};

Dropout dropout_of(const Case& c) {
  return {.p = c.p, .site = 18, .now = &kNow, .samples = std::span(kSamples).first(static_cast<size_t>(c.samples))};
}

// Everything in fp64, one query head at a time.
struct Plain {
  Plain(const Case& all, const at::Tensor& qkv, const at::Tensor& d_out)
      : c(all), x(values(qkv)), d(values(d_out)), out(d.size()), d_qkv(x.size()) {
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
    for (int64_t j = 0; j <= i; ++j) {
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
        const size_t v = at(s, static_cast<int64_t>(j), v_head) + e;
        out[out_at + e] += m[j] * p[j] * x[v];
        d_p[j] += m[j] * d[out_at + e] * x[v];
        d_qkv[v] += m[j] * p[j] * d[out_at + e];
      }
      delta += p[j] * d_p[j];
    }
    for (size_t j = 0; j < p.size(); ++j)
      for (size_t e = 0; e < D; ++e) {
        const double d_score = scale * p[j] * (d_p[j] - delta);
        const size_t k = at(s, static_cast<int64_t>(j), k_head) + e, q = at(s, i, h) + e;
        d_qkv[q] += d_score * x[k];
        d_qkv[k] += d_score * x[q];
      }
  }

  const Case& c;
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
    attention_forward(out, log_sum, qkv, c.heads, dropout);
    attention_backward(d_qkv, d_out, out, log_sum, qkv, c.heads, dropout);
  }
  at::Tensor qkv, d_out, out, log_sum, d_qkv;
};

TEST(Attention, ForwardAndBackwardAreTheDefinition) {
  for (at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << ", heads "
                                        << c.heads.heads << " / " << c.heads.kv_heads << " x " << c.heads.head_width
                                        << " p " << c.p);
      const Computed run(c, dtype);
      const Plain plain(c, run.qkv, run.d_out);
      // bf16: besides the result, out (from which backward takes what the softmax subtracts), probabilities and their
      // gradients are rounded
      const double relative = dtype == at::kFloat ? 1e-5 : 1.0 / 32;
      expect_close(run.out, plain.out, relative);
      expect_close(run.log_sum, plain.log_sum, dtype == at::kFloat ? 1e-5 : 1e-4);
      expect_close(run.d_qkv, plain.d_qkv, relative);
    }
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
}  // namespace partita
