#include "partita/ops/rope.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

struct Case {
  int64_t samples, length;
  Heads heads;
};
const Case kCases[] = {{1, 1, {1, 1, 2}}, {2, 5, {3, 1, 6}},   {1, 17, {4, 2, 34}},
                       {0, 4, {2, 2, 8}}, {3, 40, {2, 2, 64}}, {2, 33, {8, 2, 128}}};
constexpr int64_t kPositions = 300;

RopeTable table_of(const Case& c) {
  return make_rope_table({.head_width = c.heads.head_width, .positions = kPositions});
}

at::Tensor qkv_of(const Case& c, at::ScalarType dtype, uint64_t seed) {
  return random({c.samples, c.length, (c.heads.heads + 2 * c.heads.kv_heads) * c.heads.head_width}, dtype, seed);
}

// Pairs of q and k as complex numbers times e^(i angle), or e^(-i angle); v as it is.
Values turned(const Values& qkv, const Values& positions, const Heads& heads, const RopeTable& table,
              double direction) {
  Values out = qkv;
  const auto half = static_cast<size_t>(heads.head_width / 2);
  const auto width = static_cast<size_t>((heads.heads + 2 * heads.kv_heads) * heads.head_width);
  const Values cos = values(table.cos), sin = values(table.sin);
  for (size_t row = 0; row < positions.size(); ++row)
    for (size_t h = 0; h < static_cast<size_t>(heads.heads + heads.kv_heads); ++h)
      for (size_t i = 0; i < half; ++i) {
        const size_t a = row * width + 2 * half * h + i, b = a + half;
        const size_t angle = static_cast<size_t>(positions[row]) * half + i;
        out[a] = qkv[a] * cos[angle] - direction * qkv[b] * sin[angle];
        out[b] = qkv[b] * cos[angle] + direction * qkv[a] * sin[angle];
      }
  return out;
}

template <class F>
void for_all_cases(F&& f) {
  for (at::ScalarType dtype : kDTypes)
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << c.samples << " x " << c.length << " heads "
                                        << c.heads.heads << "/" << c.heads.kv_heads << " x " << c.heads.head_width);
      f(c, dtype);
    }
}

// Of transformers' LlamaRotaryEmbedding, version 5.24, bit for bit.
TEST(Rope, FrequenciesAreThoseOfHuggingFace) {
  struct Known {
    RopeOptions options;
    std::vector<std::pair<size_t, float>> frequencies;
  };
  const Known known[] = {
      {{.head_width = 64, .theta = 10000},
       {{0, 1.0F}, {1, 0x1.7ff222p-1F}, {7, 0x1.111aeep-3F}, {15, 0x1.b4f7e4p-7F}, {31, 0x1.17a8e4p-13F}}},
      {{.head_width = 128, .theta = 500000},
       {{1, 0x1.a11582p-1F}, {7, 0x1.e788c2p-3F}, {31, 0x1.c71820p-10F}, {39, 0x1.610332p-12F}, {63, 0x1.4985fep-19F}}},
      {{.head_width = 128, .theta = 500000, .factor = 8},  // Llama 3.1: unchanged, interpolated, divided
       {{1, 0x1.a11582p-1F}, {7, 0x1.e788c2p-3F}, {31, 0x1.c12f3cp-11F}, {34, 0x1.765ba4p-13F}, {39, 0x1.610332p-15F}}},
      {{.head_width = 64, .theta = 500000, .factor = 32},  // Llama 3.2
       {{1, 0x1.53c38cp-1F},
        {7, 0x1.d03ccep-5F},
        {15, 0x1.524f36p-10F},
        {18, 0x1.46831ap-16F},
        {31, 0x1.948360p-24F}}}};
  for (const auto& [options, frequencies] : known) {
    const std::vector<float> found = rope_frequencies(options);
    ASSERT_EQ(found.size(), static_cast<size_t>(options.head_width / 2));
    for (const auto& [i, frequency] : frequencies)
      EXPECT_EQ(found[i], frequency) << options.head_width << " " << options.theta << " " << options.factor << " " << i;
  }
}

TEST(Rope, ScalingOnlyLowersFrequencies) {
  for (const int64_t width : {2, 6, 64, 130})
    for (const double theta : {100.0, 10000.0, 5e5})
      for (const double factor : {2.0, 8.0, 32.0}) {
        const std::vector<float> plain = rope_frequencies({.head_width = width, .theta = theta});
        const std::vector<float> scaled = rope_frequencies({.head_width = width, .theta = theta, .factor = factor});
        for (size_t i = 0; i < plain.size(); ++i) {
          const double exact = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
          EXPECT_NEAR(plain[i], exact, 1e-6 * exact);
          EXPECT_LE(scaled[i], plain[i]);
          EXPECT_GE(scaled[i], plain[i] / factor * (1 - 1e-6));
          const double turns = 8192 * exact / (2 * M_PI);
          if (turns > 4.001) {
            EXPECT_EQ(scaled[i], plain[i]);
          }
          if (turns < 0.999) {
            EXPECT_EQ(scaled[i], static_cast<float>(plain[i] / factor));
          }
          EXPECT_TRUE(i == 0 || scaled[i] < scaled[i - 1]);
        }
      }
}

TEST(Rope, TableHoldsCosineAndSineOfTheRoundedAngles) {
  const RopeOptions options{.head_width = 128, .positions = 12346, .theta = 500000, .factor = 8};
  const RopeTable table = make_rope_table(options);
  const std::vector<float> frequency = rope_frequencies(options);
  ASSERT_EQ(table.cos.sizes(), at::IntArrayRef({12346, 64}));
  ASSERT_EQ(table.sin.sizes(), table.cos.sizes());
  const float *cos = table.cos.const_data_ptr<float>(), *sin = table.sin.const_data_ptr<float>();
  for (const int64_t position : {0, 1, 4095, 12345})
    for (int64_t i = 0; i < 64; ++i) {
      const float angle = static_cast<float>(position) * frequency[static_cast<size_t>(i)];
      EXPECT_NEAR(cos[position * 64 + i], std::cos(static_cast<double>(angle)), 1e-7);
      EXPECT_NEAR(sin[position * 64 + i], std::sin(static_cast<double>(angle)), 1e-7);
    }
  // transformers', within a unit in the last place: different CPUs have different cosines
  EXPECT_NEAR(cos[4095 * 64 + 3], -0x1.a83e8cp-2F, 6e-8);
  EXPECT_NEAR(sin[4095 * 64 + 3], 0x1.d1fddap-1F, 6e-8);
  EXPECT_NEAR(cos[12345 * 64 + 5], 0x1.bd01d2p-2F, 6e-8);
}

TEST(Rope, ForwardTurnsQueriesAndKeysOnly) {
  for_all_cases([](const Case& c, at::ScalarType dtype) {
    const at::Tensor qkv = qkv_of(c, dtype, 1), positions = integers({c.samples, c.length}, kPositions, 2);
    const RopeTable table = table_of(c);
    const at::Tensor before = qkv.clone();
    rope_forward(qkv, positions, c.heads, table);
    expect_close(qkv, turned(values(before), values(positions), c.heads, table, 1), tolerance(dtype));
    const int64_t turned_width = (c.heads.heads + c.heads.kv_heads) * c.heads.head_width;
    const auto rest = [&](const at::Tensor& x) { return x.narrow(2, turned_width, x.size(2) - turned_width); };
    EXPECT_EQ(values(rest(qkv)), values(rest(before)));
  });
}

TEST(Rope, BackwardTurnsBack) {
  for_all_cases([](const Case& c, at::ScalarType dtype) {
    const at::Tensor d_qkv = qkv_of(c, dtype, 3), positions = integers({c.samples, c.length}, kPositions, 2);
    const RopeTable table = table_of(c);
    const at::Tensor before = d_qkv.clone();
    rope_backward(d_qkv, positions, c.heads, table);
    expect_close(d_qkv, turned(values(before), values(positions), c.heads, table, -1), tolerance(dtype));
    rope_forward(d_qkv, positions, c.heads, table);
    expect_close(d_qkv, values(before),
                 4 * tolerance(dtype));  // a rounding of the larger of a pair reaches the smaller
  });
}

// <d_out, f(x)> = <f'(d_out), x>, since the turn is linear.
TEST(Rope, BackwardIsTheTransposeOfForward) {
  const Case c{2, 9, {4, 2, 10}};
  const at::Tensor x = qkv_of(c, at::kFloat, 1), d = qkv_of(c, at::kFloat, 2), y = x.clone(), d_x = d.clone();
  const at::Tensor positions = integers({2, 9}, kPositions, 3);
  rope_forward(y, positions, c.heads, table_of(c));
  rope_backward(d_x, positions, c.heads, table_of(c));
  const auto dot = [](const Values& a, const Values& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  EXPECT_NEAR(dot(values(d), values(y)), dot(values(d_x), values(x)), 1e-4);
}

TEST(Rope, ThreadsDoNotChangeABit) {
  const Case c{3, 101, {4, 2, 34}};
  for (at::ScalarType dtype : kDTypes) {
    const at::Tensor positions = integers({c.samples, c.length}, kPositions, 2);
    const auto run = [&] {
      const at::Tensor qkv = qkv_of(c, dtype, 1);
      rope_forward(qkv, positions, c.heads, table_of(c));
      return qkv;
    };
    EXPECT_TRUE(same_bits(with_threads(1, run), with_threads(2, run)));
  }
}

TEST(Rope, WrongOperandsAreNamedAndNothingIsWritten) {
  const Case c{2, 3, {2, 1, 4}};
  const at::Tensor qkv = qkv_of(c, at::kFloat, 1), before = qkv.clone(), positions = integers({2, 3}, 5, 2);
  for (const int32_t bad : {-1, static_cast<int32_t>(kPositions)}) {
    positions.mutable_data_ptr<int32_t>()[5] = bad;
    EXPECT_THAT([&] { rope_forward(qkv, positions, c.heads, table_of(c)); },
                ::testing::ThrowsMessage<Error>(
                    ::testing::HasSubstr("position " + std::to_string(bad) + " in sample 1 at place 2")));
  }
  EXPECT_TRUE(same_bits(qkv, before));
  EXPECT_THAT(
      [&] {
        rope_forward(qkv, positions, {2, 2, 4}, table_of(c));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("qkv: shape [2, 3, 16], expected [2, 3, 24]")));
  EXPECT_THAT([] { (void)rope_frequencies({.head_width = 5}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("heads are 5 wide")));
  EXPECT_THAT([] { (void)rope_frequencies({.factor = 8, .low = 4, .high = 4}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("low 4 and high 4")));
}

}  // namespace
}  // namespace partita::internal
