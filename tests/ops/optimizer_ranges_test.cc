// Optimizer steps in ranges on several threads: the same bits for every division, dtype and alignment.
#include <functional>
#include <string>

#include "partita/ops/adamw.h"
#include "partita/ops/cpu/optimizer_problem.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

const StepScalars kNow{.seed = 11, .step = 5, .update = 4, .learning_rate = 0.01F, .gradient_scale = 0.5F};

struct DTypes {
  at::ScalarType master, gradient, weight;  // undefined: only the master
};

std::string name_of(const DTypes& d) {
  return std::string(at::toString(d.master)) + ", gradient " + at::toString(d.gradient) + ", weight " +
         at::toString(d.weight);
}

std::vector<DTypes> all_dtypes() {
  std::vector<DTypes> all;
  for (at::ScalarType gradient : kDTypes) {
    all.push_back({at::kBFloat16, gradient, at::ScalarType::Undefined});
    for (at::ScalarType weight : {at::ScalarType::Undefined, at::kBFloat16, at::kHalf})
      all.push_back({at::kFloat, gradient, weight});
  }
  return all;
}

// n elements that begin `offset` elements after an aligned address.
at::Tensor shifted(const at::Tensor& values, int64_t offset) {
  const at::Tensor memory = at::empty({values.numel() + offset}, values.options());
  const at::Tensor out = memory.narrow(0, offset, values.numel());
  out.copy_(values);
  return out;
}

struct Operands {
  Operands() = default;
  Operands(int64_t n, const DTypes& d)
      : master(random({n}, d.master, 1)),
        m(random({n}, d.master, 2, 0, 0.1)),
        v(random({n}, d.master, 3, 0, 0.1).abs()),
        gradient(random({n}, d.gradient, 4)) {
    if (d.weight != at::ScalarType::Undefined) weight = nan({n}, d.weight);
  }

  Operands shifted_by(int64_t offset) const {
    Operands out;
    out.master = shifted(master, offset), out.m = shifted(m, offset), out.v = shifted(v, offset);
    out.gradient = shifted(gradient, offset);
    if (weight.defined()) out.weight = shifted(weight, offset);
    return out;
  }

  at::Tensor master, m, v, gradient, weight;
};

struct Kind {
  const char* name;
  std::function<void(const Operands&)> step;
};

const Kind kKinds[] = {
    {"AdamW",
     [](const Operands& o) {
       adamw_step(o.master, o.m, o.v, o.gradient, o.weight, {.weight_decay = 0.1}, &kNow, {.parameter = 7, .first = 3});
     }},
    {"LAMB",
     [](const Operands& o) {
       const SquaredNorms norms = lamb_measure(o.master, o.m, o.v, o.gradient, {.weight_decay = 0.1}, &kNow);
       lamb_step(o.master, o.m, o.v, o.gradient, o.weight, {.weight_decay = 0.1}, lamb_ratio(norms), &kNow,
                 {.parameter = 7, .first = 3});
     }},
    {"SGD", [](const Operands& o) {
       sgd_step(o.master, o.m, o.gradient, o.weight, {.weight_decay = 0.1}, &kNow, {.parameter = 7, .first = 3});
     }}};

void expect_same(const Operands& found, const Operands& expected) {
  EXPECT_TRUE(same_bits(found.master, expected.master)) << "master";
  EXPECT_TRUE(same_bits(found.m, expected.m)) << "first state";
  EXPECT_TRUE(same_bits(found.v, expected.v)) << "second state";
  EXPECT_TRUE(!expected.weight.defined() || same_bits(found.weight, expected.weight)) << "weight";
}

TEST(OptimizerRanges, AnyNumberOfThreadsGivesTheSameBits) {
  for (const Kind& kind : kKinds)
    for (const DTypes& dtypes : all_dtypes())
      for (int64_t n : {1, 17, 16'385, 33'000, 120'011}) {
        const auto run = [&] {
          Operands o(n, dtypes);
          kind.step(o);
          return o;
        };
        const Operands one = with_threads(1, run);
        for (int threads : {2, 3, 7}) {
          SCOPED_TRACE(std::string(kind.name) + " " + name_of(dtypes) + ", " + std::to_string(n) + " elements, " +
                       std::to_string(threads) + " threads");
          expect_same(with_threads(threads, run), one);
        }
      }
}

TEST(OptimizerRanges, CoverEveryElementOnceFromCacheLineToCacheLine) {
  for (int64_t count : {0, 1, 127, 128, 129, 16'384, 16'385, 50'021})
    for (int threads : {1, 2, 3, 7}) {
      SCOPED_TRACE(std::to_string(count) + " elements, " + std::to_string(threads) + " threads");
      const std::vector<int> visits = with_threads(threads, [&] {
        std::vector<int> seen(static_cast<size_t>(count));
        for_element_ranges(count, [&](int64_t begin, int64_t end) {
          EXPECT_EQ(begin % 64, 0);
          EXPECT_LE(end, count);
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        return seen;
      });
      EXPECT_TRUE(std::ranges::all_of(visits, [](int seen) { return seen == 1; }));
    }
}

// Weights of many elements are written past the caches, unless they begin within a cache line.
TEST(OptimizerRanges, StreamedWeightsAreTheRoundedMaster) {
  constexpr int64_t kCount = kLeastStreamedElements + 77;
  for (at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Operands values(kCount, {at::kFloat, at::kFloat, dtype});
    for (const Kind& kind : kKinds) {
      const auto run = [&](int64_t offset) {
        const Operands o = values.shifted_by(offset);
        kind.step(o);
        return o;
      };
      const Operands aligned = with_threads(1, [&] { return run(0); });
      EXPECT_TRUE(same_bits(aligned.weight, aligned.master.to(dtype))) << kind.name;
      for (int64_t offset : {0, 1, 32}) {
        SCOPED_TRACE(std::string(kind.name) + " " + at::toString(dtype) + ", offset " + std::to_string(offset));
        expect_same(with_threads(3, [&] { return run(offset); }), aligned);
      }
    }
  }
}

}  // namespace
}  // namespace partita::internal
