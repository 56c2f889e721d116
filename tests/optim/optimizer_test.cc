#include "partita/optim/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "partita/base/error.h"
#include "partita/shard/flat_buffer.h"
#include "tests/support/reference_optimizer.h"

namespace partita::internal {
namespace {

using test::norm;
using test::Reference;
using test::Values;

// Matrices that slices cut, vectors, one element, none.
std::vector<ParameterSpec> parameters() {
  return {{.name = "w", .shape = {37, 50}, .decay = true},
          {.name = "b", .shape = {11}},
          {.name = "v", .shape = {3, 700}, .decay = true},
          {.name = "one", .shape = {1}},
          {.name = "none", .shape = {0}, .decay = true}};
}

// All slices of one unit, each with memory of its own, as ranks hold them; values by parameter.
class Slices {
 public:
  Slices(int ranks, const OptimizerOptions& options, DType master)
      : layout_(make_layout(parameters(), ranks)), optimizer_(make_optimizer(options)) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t count = layout_.slice_count();
      views_.push_back({.layout = &layout_,
                        .segments = slice_segments(layout_, rank),
                        .first_parameter = 2,
                        .master = flat_zeros(count, master),
                        .gradient = flat_zeros(count, DType::fp32),
                        .weight = {},
                        .states = optimizer_->make_states(count, master)});
      views_.back().weight = views_.back().master;
    }
  }
  Slices(const Slices&) = delete;

  const ParameterSpec& parameter(size_t p) const { return layout_.parameters[p]; }
  const Optimizer& optimizer() const { return *optimizer_; }
  size_t parameter_count() const { return layout_.parameters.size(); }

  // Values of parameter p from / to the tensors that `which` picks.
  using Which = std::function<at::Tensor(const ShardView&)>;
  static at::Tensor master(const ShardView& v) { return v.master; }
  static at::Tensor gradient(const ShardView& v) { return v.gradient; }
  static Which state(size_t s) {
    return [s](const ShardView& v) { return v.states[s]; };
  }
  Values get(size_t p, const Which& which) const {
    Values values(static_cast<size_t>(parameter(p).count()));
    for (const ShardView& view : views_)
      for (const Segment& s : view.segments) {
        if (s.parameter != static_cast<int>(p)) continue;
        const at::Tensor wide = which(view).to(at::kDouble);
        std::memcpy(values.data() + s.in_box, wide.const_data_ptr<double>() + s.in_slice,
                    static_cast<size_t>(s.count) * sizeof(double));
      }
    return values;
  }
  void set(size_t p, const Which& which, const Values& values) {
    for (const ShardView& view : views_)
      for (const Segment& s : view.segments)
        if (s.parameter == static_cast<int>(p))
          for (int64_t i = 0; i < s.count; ++i)
            which(view)[s.in_slice + i].fill_(values[static_cast<size_t>(s.in_box + i)]);
  }

  // What the engine does: norms are summed over the slices first.
  void step(const StepScalars& now) {
    at::Tensor norms;
    if (optimizer_->needs_norms()) {
      norms = flat_zeros(2 * static_cast<int64_t>(2 + parameter_count()), DType::fp32).to(at::kDouble).view({-1, 2});
      for (const ShardView& view : views_) optimizer_->measure(view, norms, &now);
    }
    for (const ShardView& view : views_) optimizer_->step(view, norms, &now);
  }

  void expect_zero_padding() const {
    double all = 0, owned = 0;
    for (const ShardView& view : views_) {
      const auto add = [&](const at::Tensor& tensor) {
        const at::Tensor wide = tensor.to(at::kDouble);
        const double* data = wide.const_data_ptr<double>();
        for (int64_t i = 0; i < wide.numel(); ++i) all += data[i] != 0 ? 1 : 0;
        for (const Segment& s : view.segments)
          for (int64_t i = s.in_slice; i < s.in_slice + s.count; ++i) owned += data[i] != 0 ? 1 : 0;
      };
      add(view.master);
      for (const at::Tensor& state : view.states) add(state);
    }
    EXPECT_EQ(all, owned);
  }

 private:
  Layout layout_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<ShardView> views_;
};

// Normal numbers that bf16 holds, so that every form starts from the same.
Values normal(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  Values values;
  while (values.size() < count)
    values.push_back(static_cast<double>(std::ldexp(std::round(distribution(random) * 64), -6)));
  return values;
}

const OptimizerOptions kOptions[] = {
    {.kind = OptimizerKind::adamw}, {.kind = OptimizerKind::adamw, .beta2 = 0.999, .weight_decay = 0},
    {.kind = OptimizerKind::sgd},   {.kind = OptimizerKind::sgd, .momentum = 0},
    {.kind = OptimizerKind::lamb},  {.kind = OptimizerKind::lamb, .beta1 = 0, .weight_decay = 0.5},
};

std::string name_of(const OptimizerOptions& options) {
  const char* kinds[] = {"adamw", "sgd", "lamb"};
  return fmt::format("{} momentum {} decay {}", kinds[static_cast<int>(options.kind)], options.momentum,
                     options.weight_decay);
}

TEST(Optimizer, FollowsTheFormulaOnWholeParametersHoweverTheyAreCut) {
  for (const OptimizerOptions& options : kOptions)
    for (int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(::testing::Message() << name_of(options) << ", " << ranks << " slices");
      Slices slices(ranks, options, DType::fp32);
      std::vector<Reference> references;
      for (size_t p = 0; p < slices.parameter_count(); ++p) {
        const auto count = static_cast<size_t>(slices.parameter(p).count());
        references.push_back(
            {slices.parameter(p).decay, normal(count, static_cast<unsigned>(p)), Values(count), Values(count)});
        slices.set(p, Slices::master, references.back().w);
      }
      for (int64_t update = 0; update < 3; ++update) {
        for (size_t p = 0; p < references.size(); ++p) {
          Values g =
              normal(references[p].w.size(), static_cast<unsigned>(100 * update + 50) + static_cast<unsigned>(p));
          slices.set(p, Slices::gradient, g);
          for (double& x : g) x *= 0.25;
          references[p].step(options, g, 0.0625, update);
        }
        // Steps are not updates where some were skipped.
        slices.step({.step = 2 * update, .update = update, .learning_rate = 0.0625F, .gradient_scale = 0.25F});
      }
      for (size_t p = 0; p < references.size(); ++p) {
        const auto expect = [&](const Values& found, const Values& expected) {
          for (size_t i = 0; i < expected.size(); ++i)
            ASSERT_NEAR(found[i], expected[i], 2e-6 * (1 + std::abs(expected[i]))) << slices.parameter(p).name << i;
        };
        expect(slices.get(p, Slices::master), references[p].w);
        const size_t states = slices.optimizer().state_names().size();
        if (states > 0) expect(slices.get(p, Slices::state(0)), references[p].a);
        if (states > 1) expect(slices.get(p, Slices::state(1)), references[p].b);
      }
      slices.expect_zero_padding();
    }
}

TEST(Optimizer, AnyCutGivesTheSameBits) {
  for (const OptimizerOptions& options : kOptions)
    for (DType master : {DType::fp32, DType::bf16}) {
      SCOPED_TRACE(::testing::Message() << name_of(options) << " " << name_of(master));
      const auto run = [&](int ranks) {
        Slices slices(ranks, options, master);
        for (size_t p = 0; p < slices.parameter_count(); ++p) {
          const auto count = static_cast<size_t>(slices.parameter(p).count());
          slices.set(p, Slices::master, normal(count, static_cast<unsigned>(p)));
          slices.set(p, Slices::gradient, normal(count, 50 + static_cast<unsigned>(p)));
        }
        for (int64_t step = 0; step < 2; ++step)
          slices.step({.seed = 9, .step = step, .update = step, .learning_rate = 0.01F});
        slices.expect_zero_padding();
        std::vector<Values> all;
        for (size_t p = 0; p < slices.parameter_count(); ++p) {
          all.push_back(slices.get(p, Slices::master));
          for (size_t s = 0; s < slices.optimizer().state_names().size(); ++s)
            all.push_back(slices.get(p, Slices::state(s)));
        }
        return all;
      };
      const std::vector<Values> whole = run(1);
      for (int ranks : {2, 3, 4}) EXPECT_EQ(run(ranks), whole) << ranks << " slices";
    }
}

TEST(Optimizer, ASkippedStepChangesNothing) {
  for (const OptimizerOptions& options : kOptions)
    for (DType master : {DType::fp32, DType::bf16}) {
      Slices slices(2, options, master);
      const Values before = normal(37 * 50, 1), bad(37 * 50, std::numeric_limits<double>::infinity());
      slices.set(0, Slices::master, before);
      slices.set(0, Slices::gradient, bad);
      slices.step({.learning_rate = 1, .skip = 1});
      EXPECT_EQ(slices.get(0, Slices::master), before);
      for (size_t s = 0; s < slices.optimizer().state_names().size(); ++s)
        EXPECT_EQ(norm(slices.get(0, Slices::state(s))), 0);
    }
}

TEST(Optimizer, StatesHaveTheNamesThatCheckpointsCallThem) {
  const auto names = [](const OptimizerOptions& options) {
    const auto optimizer = make_optimizer(options);
    EXPECT_EQ(optimizer->make_states(5, DType::bf16).size(), optimizer->state_names().size());
    return std::vector<std::string>(optimizer->state_names().begin(), optimizer->state_names().end());
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({.kind = OptimizerKind::adamw}), (Names{"adamw.m", "adamw.v"}));
  EXPECT_EQ(names({.kind = OptimizerKind::lamb}), (Names{"lamb.m", "lamb.v"}));
  EXPECT_EQ(names({.kind = OptimizerKind::sgd}), (Names{"sgd.momentum"}));
  EXPECT_EQ(names({.kind = OptimizerKind::sgd, .momentum = 0}), Names{});
}

TEST(Optimizer, WrongOptionsAreNamed) {
  const auto error = [](const OptimizerOptions& options, const char* message) {
    EXPECT_THAT([&] { (void)make_optimizer(options); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  error({.beta1 = 1}, "beta1 is 1, expected at least 0 and less than 1");
  error({.kind = OptimizerKind::lamb, .beta2 = -0.1}, "beta2 is -0.1");
  error({.epsilon = 0}, "epsilon is 0, expected more than 0");
  error({.kind = OptimizerKind::sgd, .momentum = 1.5}, "momentum is 1.5");
  error({.weight_decay = -1}, "weight_decay is -1");
}

TEST(Optimizer, NormsOfAnotherModelAreRefused) {
  const auto optimizer = make_optimizer({.kind = OptimizerKind::lamb});
  const Layout layout = make_layout({{.name = "w", .shape = {4}}}, 1);
  const ShardView view{.layout = &layout,
                       .segments = slice_segments(layout, 0),
                       .first_parameter = 3,
                       .master = flat_zeros(layout.count, DType::fp32),
                       .gradient = flat_zeros(layout.count, DType::fp32),
                       .weight = {},
                       .states = optimizer->make_states(layout.count, DType::fp32)};
  const StepScalars now;
  const at::Tensor norms = flat_zeros(6, DType::fp32).to(at::kDouble).view({3, 2});
  EXPECT_THAT([&] { optimizer->measure(view, norms, &now); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("norms of 3 parameters do not hold parameter 3")));
}

}  // namespace
}  // namespace partita::internal
