// Master weights and optimizer states in slices, on one rank and on several, on the device and on the host: every
// update is that of whole parameters, computed here.
#include "partita/engine/optimizer_shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "partita/base/random.h"
#include "partita/device/scalar_type.h"
#include "partita/ops/adamw.h"
#include "partita/ops/flat.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"
#include "tests/support/error_message.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

// Matrices of odd sizes that slices cut inside rows; a tied table, frozen ones, a vector that two blocks write, a
// matrix that nobody writes. The same on every rank.
std::vector<BlockParameters> model(unsigned seed = 1) {
  std::mt19937 random(seed);
  const auto extent = [&] { return static_cast<int64_t>(1 + random() % 47); };
  const auto matrix = [&](std::string name, bool trainable = true) {
    return ParameterSpec{.name = std::move(name), .shape = {extent(), extent()}, .decay = true, .trainable = trainable};
  };
  const auto vector = [&](std::string name, bool trainable = true) {
    return ParameterSpec{.name = std::move(name), .shape = {3 * extent()}, .trainable = trainable};
  };
  const ParameterSpec table = matrix("table"), bias = vector("bias");
  return {{BlockKind::embedding, {table}},
          {BlockKind::layer, {matrix("w0"), bias, matrix("more0")}},
          {BlockKind::layer, {matrix("w1", false), bias}},
          {BlockKind::layer, {matrix("w2"), matrix("unused"), vector("scale2")}},
          {BlockKind::layer, {matrix("w3"), vector("frozen", false)}},
          {BlockKind::head, {table, vector("norm")}}};
}

int64_t key_of(const std::string& name) { return static_cast<int64_t>(hash_of(name) % 13); }

// What block `block` of a rank adds in a micro-batch: few bits, so that sums are exact in any order.
double contribution(const ParameterSpec& p, int64_t i, int rank, int step, int micro_batch, int block) {
  return static_cast<double>((i * 7 + key_of(p.name) + 3 * rank + 5 * micro_batch + 11 * block + 6 * step) % 17 - 8) /
         8;
}
// Exact in bf16, never 0.
double initial(const ParameterSpec& p, int64_t i) {
  return static_cast<double>((i * 5 + key_of(p.name)) % 31 - 15) / 32 + 1.0 / 64;
}

at::Tensor tensor_of(const std::vector<int64_t>& shape, const Values& values, at::ScalarType dtype) {
  const at::Tensor t = at::empty(shape, at::TensorOptions(at::kDouble));
  std::ranges::copy(values, t.mutable_data_ptr<double>());
  return t.to(dtype);
}

double norm(const Values& values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return std::sqrt(squares);
}

// A whole parameter under its optimizer: AdamW and SGD as in torch.optim, LAMB as in its paper.
struct Reference {
  bool decay = false;
  Values w, a, b;  // weights; momentum or moments

  void step(const OptimizerOptions& options, const Values& g, double rate, int64_t update) {
    const double weight_decay = decay ? options.weight_decay : 0, t = static_cast<double>(update) + 1;
    if (options.kind == OptimizerKind::sgd) {
      for (size_t i = 0; i < w.size(); ++i) {
        a[i] = options.momentum * a[i] + g[i] + weight_decay * w[i];
        w[i] -= rate * a[i];
      }
      return;
    }
    Values u(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      a[i] = options.beta1 * a[i] + (1 - options.beta1) * g[i];
      b[i] = options.beta2 * b[i] + (1 - options.beta2) * g[i] * g[i];
      const double root = std::sqrt(b[i] / (1 - std::pow(options.beta2, t))) + options.epsilon;
      u[i] = a[i] / (1 - std::pow(options.beta1, t)) / root + weight_decay * w[i];
    }
    const double both = norm(w) * norm(u),
                 ratio = options.kind == OptimizerKind::lamb && both > 0 ? norm(w) / norm(u) : 1;
    for (size_t i = 0; i < w.size(); ++i) w[i] -= rate * ratio * u[i];
  }
};

struct Case {
  OptimizerOptions optimizer;
  int stage = 0;
  DType compute = DType::fp32, states = DType::fp32, gradient = DType::fp32;
  int micro_batches = 1;
  bool host = false;
  unsigned late = 20;  // share of copies that are made at once: LateCopies
  unsigned seed = 1;   // of the model
};

std::string name_of(const Case& c) {
  const char* kinds[] = {"adamw", "sgd", "lamb"};
  return fmt::format("{} momentum {}, ZeRO-{}, {} with states in {}, {} micro-batches, host {}",
                     kinds[static_cast<int>(c.optimizer.kind)], c.optimizer.momentum, c.stage,
                     partita::name_of(c.compute), partita::name_of(c.states), c.micro_batches, c.host);
}

// The shards of a model with all that they work with.
class Shards {
 public:
  explicit Shards(const Case& the_case, std::unique_ptr<Copies> the_copies = nullptr)
      : c(the_case),
        self(test_world().self()),
        data(test_world().group("data", test_ranks())),
        zero(make_zero(c.stage, *self, *data)),
        blocks(model(c.seed)),
        plan(plan_units(blocks, {.ranks = zero.sharding.ranks,
                                 .weight = c.compute,
                                 .matrix_gradient = c.gradient,
                                 .matrix_gradient_sum = c.micro_batches > 1 ? DType::fp32 : c.gradient,
                                 .layers_per_unit = 1})),
        options({.compute = c.compute,
                 .states = c.states,
                 .micro_batches = c.micro_batches,
                 .optimizer = c.optimizer,
                 .states_on_host = c.host,
                 .poison = true}),
        copies(the_copies ? std::move(the_copies) : std::make_unique<test::LateCopies>(c.seed, c.late)),
        masters(make_masters(plan, options)),
        weights(plan, zero, {.poison = true, .masters = masters}, compute, communication),
        gradients(plan, zero,
                  {.micro_batches = c.micro_batches, .poison = true, .copies = c.host ? copies.get() : nullptr},
                  compute, communication),
        shards(plan, options, masters,
               {.shard = *zero.shard,
                .weights = weights,
                .gradients = &gradients,
                .copies = copies.get(),
                .compute = compute}) {
    for (const Unit& unit : plan.units)
      for (const ParameterSpec& p : unit.layout.parameters) parameters[p.name] = &p;
  }
  Shards(const Shards&) = delete;

  void set_initial() {
    shards.set(from_host([](const ParameterSpec& p, const Box& box, std::span<float> out) {
      const int64_t columns = whole_box(p.shape).columns;
      size_t next = 0;
      for (int64_t r = 0; r < box.rows; ++r)
        for (int64_t k = 0; k < box.columns; ++k)
          out[next++] = static_cast<float>(initial(p, (box.row + r) * columns + box.column + k));
    }));
  }

  // The forward and backward passes of a step, as far as gradients are concerned; `spoil`: one rank computes infinity.
  void backward(int step, bool spoil = false) {
    shards.finish();
    for (int m = 0; m < c.micro_batches; ++m)
      for (int b = static_cast<int>(blocks.size()) - 1; b >= 0; --b) {
        const std::unique_ptr<Grads> open = gradients.open(b);
        const auto& list = blocks[static_cast<size_t>(b)].parameters;
        for (size_t p = 0; p < list.size(); ++p) {
          if (list[p].name == "unused") continue;
          const Target target = open->target(static_cast<int>(p));
          if (!target.gradient.defined()) continue;
          Values values;
          for (int64_t i = 0; i < list[p].count(); ++i)
            values.push_back(contribution(list[p], i, data->rank(), step, m, b));
          if (spoil && data->rank() == data->size() - 1 && list[p].name == "w2")
            values.back() = std::numeric_limits<double>::infinity();
          const at::Tensor value = tensor_of(list[p].shape, values, target.gradient.scalar_type());
          if (target.accumulate)
            target.gradient.add_(value);
          else
            target.gradient.copy_(value);
        }
        gradients.close(b, m + 1 == c.micro_batches);
      }
    gradients.finish();
  }
  // The sum over ranks and micro-batches that backward makes.
  [[nodiscard]] Values gradient(const ParameterSpec& parameter, int step) const {
    Values sum(static_cast<size_t>(parameter.count()));
    if (parameter.name == "unused") return sum;
    for (int rank = 0; rank < data->size(); ++rank)
      for (int m = 0; m < c.micro_batches; ++m)
        for (int b = 0; b < static_cast<int>(blocks.size()); ++b)
          for (const ParameterSpec& p : blocks[static_cast<size_t>(b)].parameters)
            if (p.name == parameter.name)
              for (size_t i = 0; i < sum.size(); ++i)
                sum[i] += contribution(p, static_cast<int64_t>(i), rank, step, m, b);
    return sum;
  }

  // Of all gradients, as the engine computes it.
  double norm_of_gradients() {
    const at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kDouble));
    gradients.sum_of_squares(sum);
    data->all_reduce(sum, Reduce::sum, compute).wait();
    return std::sqrt(sum.item<double>());
  }

  // Full weights as blocks read them, in the compute dtype.
  std::map<std::string, at::Tensor> gathered() {
    std::vector<BlockUse> uses;
    for (int b = 0; b < static_cast<int>(blocks.size()); ++b) uses.push_back({.block = b, .pass = Pass::forward});
    const UsePlan use_plan = plan_uses(plan, zero.sharding, uses);
    weights.begin(use_plan);
    std::map<std::string, at::Tensor> all;
    for (const BlockUse& use : uses) {
      const std::span<const at::Tensor> now = weights.use(use.block, use.pass);
      for (size_t p = 0; p < now.size(); ++p)
        all[blocks[static_cast<size_t>(use.block)].parameters[p].name] = now[p].clone();
      weights.prefetch();
      weights.release();
    }
    return all;
  }

  // All values of this rank's slices, in the order of the boxes.
  [[nodiscard]] std::vector<at::Tensor> copy_of_values() const {
    std::vector<at::Tensor> all;
    for (const OwnedBox& owned : shards.owned_boxes())
      for (const at::Tensor& values : owned.values) all.push_back(values.clone());
    return all;
  }

  Case c;
  std::unique_ptr<Communicator> self, data;
  Zero zero;
  std::vector<BlockParameters> blocks;
  UnitPlan plan;
  ParameterOptions options;
  CpuStream compute, communication;
  std::unique_ptr<Copies> copies;
  std::vector<at::Tensor> masters;
  WeightStore weights;
  GradientStore gradients;
  OptimizerShards shards;
  std::map<std::string, const ParameterSpec*> parameters;
};

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}
bool equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.first == y.first && x.second.equal(y.second); });
}

// visit(element of the box, its index in the whole parameter), until an ASSERT fails.
template <class Visit>
void each_element(const OwnedBox& owned, Visit visit) {
  const int64_t columns = whole_box(owned.parameter->shape).columns;
  for (int64_t r = 0; r < owned.box.rows; ++r)
    for (int64_t k = 0; k < owned.box.columns && !testing::Test::HasFatalFailure(); ++k)
      visit(r * owned.box.columns + k, static_cast<size_t>((owned.box.row + r) * columns + owned.box.column + k));
}

std::map<std::string, Reference> references(const Shards& s) {
  std::map<std::string, Reference> all;
  for (const auto& [name, p] : s.parameters) {
    const auto count = static_cast<size_t>(p->count());
    Reference& reference = all[name] = {.decay = p->decay, .w = Values(count), .a = Values(count), .b = Values(count)};
    for (size_t i = 0; i < count; ++i) reference.w[i] = initial(*p, static_cast<int64_t>(i));
  }
  return all;
}

// The slices of this rank and the weights gathered from all: fp32 states, so within a few of their roundings.
void expect_state(Shards& s, const std::map<std::string, Reference>& expected) {
  const std::map<std::string, at::Tensor> gathered = s.gathered();
  const size_t states = s.shards.optimizer_state_names().size();
  for (const OwnedBox& owned : s.shards.owned_boxes()) {
    const ParameterSpec& p = *owned.parameter;
    SCOPED_TRACE(p.name);
    if (testing::Test::HasFatalFailure()) return;
    const Reference& reference = expected.at(p.name);
    ASSERT_EQ(owned.values.size(), p.trainable ? 1 + states : 1);
    for (size_t v = 0; v < owned.values.size(); ++v) {
      const at::Tensor found = owned.values[v].to(at::kDouble);
      EXPECT_EQ(dtype_of(owned.values[v]), p.trainable ? s.c.states : s.c.compute);
      ASSERT_EQ(found.numel(), owned.box.count());
      const Values& wanted = v == 0 ? reference.w : v == 1 ? reference.a : reference.b;
      each_element(owned, [&](int64_t i, size_t whole) {
        ASSERT_NEAR(found.data_ptr<double>()[i], wanted[whole], 4e-6 * (1 + std::abs(wanted[whole])))
            << "value " << v << ", element " << whole;
      });
    }
    // What was published is the master, rounded once.
    const at::Tensor published = gathered.at(p.name).view({-1}).to(at::kDouble),
                     rounded = owned.values[0].to(scalar_type(s.c.compute)).to(at::kDouble);
    each_element(owned, [&](int64_t i, size_t whole) {
      ASSERT_EQ(published.data_ptr<double>()[whole], rounded.data_ptr<double>()[i]) << "element " << whole;
    });
  }
  const double unit = s.c.compute == DType::fp32 ? 4e-6 : s.c.compute == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  for (const auto& [name, reference] : expected) {
    const at::Tensor found = gathered.at(name).to(at::kDouble).contiguous();
    for (size_t i = 0; i < reference.w.size(); ++i)
      ASSERT_NEAR(found.data_ptr<double>()[i], reference.w[i], 1.01 * unit * std::abs(reference.w[i]) + 4e-6)
          << name << ", element " << i << " of the gathered weights";
  }
}

const OptimizerOptions kOptimizers[] = {{.kind = OptimizerKind::adamw},
                                        {.kind = OptimizerKind::sgd},
                                        {.kind = OptimizerKind::sgd, .momentum = 0},
                                        {.kind = OptimizerKind::lamb, .weight_decay = 0.3}};

constexpr float kRate = 1.0F / 16;

// min(1, most / norm), as the engine clips.
float clip_factor(double norm, double most) { return static_cast<float>(std::min(1.0, most / (norm + 1e-6))); }

TEST(OptimizerShards, UpdatesAreThoseOfWholeParameters) {
  const std::pair<DType, DType> types[] = {
      {DType::fp32, DType::fp32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::fp32}, {DType::fp16, DType::fp32}};
  unsigned turn = 0;
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage)
      for (const bool host : {false, true}) {
        const auto& [compute, gradient] = types[turn % std::size(types)];
        Shards s({.optimizer = optimizer,
                  .stage = stage,
                  .compute = compute,
                  .gradient = gradient,
                  .micro_batches = turn % 5 < 2 ? 2 : 1,
                  .host = host,
                  .late = turn % 2 == 0 ? 0U : 40U,
                  .seed = turn + 1});
        turn += host ? 2 : 1;
        SCOPED_TRACE(name_of(s.c));
        s.set_initial();
        std::map<std::string, Reference> expected = references(s);
        expect_state(s, expected);
        for (int step = 0; step < 3; ++step) {
          s.backward(step);
          double squares = 0;
          for (const auto& [name, p] : s.parameters)
            if (p->trainable) squares += std::pow(norm(s.gradient(*p, step)), 2);
          const double found = s.norm_of_gradients();
          ASSERT_NEAR(found, std::sqrt(squares), 1e-9 * found);
          // Clipped to a half of the norm in step 1, not clipped elsewhere.
          const double most = step == 1 ? found / 2 : found * 2;
          const float scale = clip_factor(found, most);
          EXPECT_NEAR(scale, step == 1 ? 0.5 : 1, 1e-5);
          for (auto& [name, reference] : expected) {
            if (!s.parameters.at(name)->trainable) continue;
            Values g = s.gradient(*s.parameters.at(name), step);
            for (double& x : g) x *= scale;
            reference.step(optimizer, g, kRate, step);
          }
          StepMemory now(at::kCPU);
          now.host = {.seed = 5, .step = step + 3, .update = step, .learning_rate = kRate, .gradient_scale = scale};
          now.publish();
          s.shards.update(now);
          now.host.learning_rate = std::nanf("");  // of the next step, while the host still updates
          expect_state(s, expected);
          if (HasFatalFailure()) return;  // ends all ranks
        }
      }
}

// Stochastic rounding depends on the parameter's name and the element's place in it, not on slices.
TEST(OptimizerShards, Bf16StatesHaveTheBitsOfWholeParameters) {
  unsigned turn = 0;
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage) {
      Shards s({.optimizer = optimizer,
                .stage = stage,
                .compute = DType::bf16,
                .states = DType::bf16,
                .host = (turn + turn / 4) % 2 == 1,
                .seed = turn + 20});
      ++turn;
      SCOPED_TRACE(name_of(s.c));
      s.set_initial();
      const std::map<std::string, Reference> before = references(s);
      std::map<std::string, std::vector<at::Tensor>> expected;  // weights and states
      for (const auto& [name, reference] : before)
        for (size_t v = 0; v < 3; ++v)
          expected[name].push_back(
              tensor_of({static_cast<int64_t>(reference.w.size())}, v == 0 ? reference.w : reference.a, at::kBFloat16));
      for (int step = 0; step < 2; ++step) {
        s.backward(step);
        StepMemory now(at::kCPU);
        now.host = {.seed = 77, .step = step, .update = step, .learning_rate = kRate, .gradient_scale = 0.125F};
        now.publish();
        s.shards.update(now);
        for (auto& [name, v] : expected) {
          const ParameterSpec& p = *s.parameters.at(name);
          if (!p.trainable) continue;
          const Values g = s.gradient(p, step);
          const at::Tensor gradient = tensor_of({p.count()}, g, at::kFloat);
          const Rounding rounding{.parameter = hash_of(name), .first = 0};
          const double decay = p.decay ? optimizer.weight_decay : 0;
          if (optimizer.kind == OptimizerKind::adamw) {
            adamw_step(v[0], v[1], v[2], gradient, {}, {.weight_decay = decay}, &now.host, rounding);
          } else if (optimizer.kind == OptimizerKind::sgd) {
            sgd_step(v[0], optimizer.momentum > 0 ? v[1] : at::Tensor(), gradient, {},
                     {.momentum = optimizer.momentum, .weight_decay = decay}, &now.host, rounding);
          } else {
            const Lamb lamb{.weight_decay = decay};
            const double ratio = lamb_ratio(lamb_measure(v[0], v[1], v[2], gradient, lamb, &now.host));
            lamb_step(v[0], v[1], v[2], gradient, {}, lamb, ratio, &now.host, rounding);
          }
          if (step > 0) continue;
          // And those bits are near the formula: each value was rounded to one of its two neighbors.
          Reference reference = before.at(name);
          Values scaled = g;
          for (double& x : scaled) x *= 0.125;
          reference.step(optimizer, scaled, kRate, 0);
          const at::Tensor w = v[0].to(at::kDouble), m = v[1].to(at::kDouble);
          for (size_t i = 0; i < g.size(); ++i) {
            ASSERT_NEAR(w.data_ptr<double>()[i], reference.w[i], std::abs(reference.w[i]) / 128 + 1e-5) << name << i;
            if (s.shards.optimizer_state_names().empty()) continue;
            ASSERT_NEAR(m.data_ptr<double>()[i], reference.a[i], std::abs(reference.a[i]) / 128 + 1e-5) << name << i;
          }
        }
        const auto gathered = s.gathered();
        for (const auto& [name, v] : expected) EXPECT_TRUE(gathered.at(name).view({-1}).equal(v[0])) << name;
        for (const OwnedBox& owned : s.shards.owned_boxes())
          for (size_t v = 0; v < owned.values.size(); ++v) {
            const at::Tensor whole = expected.at(owned.parameter->name)[v].to(at::kDouble),
                             found = owned.values[v].to(at::kDouble);
            EXPECT_EQ(dtype_of(owned.values[v]), DType::bf16);
            each_element(owned, [&](int64_t i, size_t place) {
              ASSERT_EQ(found.data_ptr<double>()[i], whole.data_ptr<double>()[place])
                  << owned.parameter->name << ", value " << v << ", element " << place << ", step " << step;
            });
          }
      }
    }
}

TEST(OptimizerShards, AStepWithoutAFiniteNormChangesNothing) {
  unsigned turn = 0;
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage)
      for (const bool host : {false, true}) {
        Shards s({.optimizer = optimizer,
                  .stage = stage,
                  .compute = turn / 2 % 2 == 0 ? DType::fp16 : DType::fp32,
                  .host = host,
                  .late = 0,
                  .seed = turn + 40});
        ++turn;
        SCOPED_TRACE(name_of(s.c));
        s.set_initial();
        std::map<std::string, Reference> expected = references(s);
        int64_t update = 0;
        for (const bool bad : {true, false, true, true, false}) {
          const std::vector<at::Tensor> before = s.copy_of_values();
          const auto gathered = s.gathered();
          s.backward(7, bad);
          const double norm = s.norm_of_gradients();
          EXPECT_EQ(std::isfinite(norm), !bad) << "the infinity of one rank is known to all";
          StepMemory now(at::kCPU);
          now.host = {.update = update, .learning_rate = kRate, .skip = bad ? 1 : 0};
          now.publish();
          s.shards.update(now);
          EXPECT_EQ(equal(s.copy_of_values(), before), bad);
          EXPECT_EQ(equal(s.gathered(), gathered), bad);
          if (bad) continue;
          for (auto& [name, reference] : expected)
            if (s.parameters.at(name)->trainable)
              reference.step(optimizer, s.gradient(*s.parameters.at(name), 7), kRate, update);
          expect_state(s, expected);
          if (HasFatalFailure()) return;  // ends all ranks
          ++update;
        }
      }
}

// Each element is in one box of one rank, and the boxes lie within their parameters.
TEST(OptimizerShards, BoxesOfAllRanksCoverEveryElementOnce) {
  for (int stage = 0; stage <= 3; ++stage)
    for (unsigned seed = 60; seed < 66; ++seed) {
      const Shards s({.stage = stage, .host = seed % 2 == 0, .seed = seed});
      std::map<std::string, at::Tensor> times;
      for (const auto& [name, p] : s.parameters) times[name] = at::zeros({p->count()}, at::TensorOptions(at::kInt));
      for (const OwnedBox& owned : s.shards.owned_boxes()) {
        EXPECT_TRUE(contains(whole_box(owned.parameter->shape), owned.box));
        for (const at::Tensor& values : owned.values) EXPECT_EQ(values.numel(), owned.box.count());
        int32_t* count = times.at(owned.parameter->name).mutable_data_ptr<int32_t>();
        each_element(owned, [&](int64_t, size_t whole) { ++count[whole]; });
      }
      CpuStream stream;
      for (const auto& [name, count] : times) {
        s.zero.shard->all_reduce(count, Reduce::sum, stream).wait();
        EXPECT_TRUE(count.eq(1).all().item<bool>()) << name << " at ZeRO-" << stage;
      }
    }
}

TEST(OptimizerShards, SetFillsWhatIsOwnedAndForgetsTheStates) {
  for (int stage = 0; stage <= 3; ++stage)
    for (const bool host : {false, true}) {
      Shards s({.stage = stage, .compute = DType::bf16, .host = host, .seed = 70});
      SCOPED_TRACE(name_of(s.c));
      s.set_initial();
      const std::vector<at::Tensor> first = s.copy_of_values();
      const auto gathered = s.gathered();
      s.backward(0);
      StepMemory now(at::kCPU);
      now.host.learning_rate = kRate;
      s.shards.update(now);
      EXPECT_FALSE(equal(s.copy_of_values(), first));
      s.set_initial();
      EXPECT_TRUE(equal(s.copy_of_values(), first));
      EXPECT_TRUE(equal(s.gathered(), gathered));
      std::vector<std::pair<std::string, Box>> filled, owned;
      s.shards.set([&](const ParameterSpec& p, const Box& box, const at::Tensor& out) {
        EXPECT_EQ(out.numel(), box.count());
        filled.emplace_back(p.name, box);
        out.fill_(0.5);
      });
      for (const OwnedBox& box : s.shards.owned_boxes()) owned.emplace_back(box.parameter->name, box.box);
      EXPECT_EQ(filled, owned);
      for (const auto& [name, weight] : s.gathered()) EXPECT_TRUE(weight.eq(0.5).all().item<bool>()) << name;
    }
}

// As from a checkpoint: the state of one sharding, written into the boxes of another, goes on with the same bits.
TEST(OptimizerShards, WrittenValuesArePublishedAndGoOn) {
  for (const bool host : {false, true})
    for (int stage = 0; stage <= 3; ++stage) {
      const Case whole{.compute = DType::bf16, .seed = 80};
      Case cut = whole;
      cut.stage = stage, cut.host = host, cut.late = 0;
      Shards from(whole), to(cut);
      SCOPED_TRACE(name_of(cut));
      const auto step = [](Shards& s, int number) {
        s.backward(number);
        StepMemory now(at::kCPU);
        now.host = {.update = number, .learning_rate = kRate};
        s.shards.update(now);
      };
      from.set_initial();
      step(from, 0);
      std::map<std::string, std::vector<at::Tensor>> state;  // whole: ZeRO-0 owns everything
      for (const OwnedBox& owned : from.shards.owned_boxes()) {
        ASSERT_EQ(owned.box, whole_box(owned.parameter->shape));
        state[owned.parameter->name] = owned.values;
      }
      to.shards.set([](const ParameterSpec&, const Box&, const at::Tensor& out) { out.fill_(-3); });
      for (const OwnedBox& owned : to.shards.owned_boxes())
        for (size_t v = 0; v < owned.values.size(); ++v) {
          const at::Tensor& source = state.at(owned.parameter->name).at(v);
          each_element(owned, [&](int64_t i, size_t place) {
            owned.values[v].narrow(0, i, 1).copy_(source.narrow(0, static_cast<int64_t>(place), 1));
          });
        }
      to.shards.publish();
      EXPECT_TRUE(equal(to.gathered(), from.gathered()));
      step(from, 1);
      step(to, 1);
      EXPECT_TRUE(equal(to.gathered(), from.gathered()));
    }
}

TEST(OptimizerShards, BytesAreThePredictedOnes) {
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage)
      for (const bool host : {false, true})
        for (const auto& [compute, states] : {std::pair(DType::fp32, DType::fp32), std::pair(DType::bf16, DType::fp32),
                                              std::pair(DType::bf16, DType::bf16)}) {
          const Shards s({.optimizer = optimizer, .stage = stage, .compute = compute, .states = states, .host = host});
          SCOPED_TRACE(name_of(s.c));
          const OptimizerShards::Bytes found = s.shards.bytes();
          const ParameterMemory predicted = predict_parameter_memory(s.plan, s.zero.sharding, s.options);
          EXPECT_EQ(found.master, predicted.master);
          EXPECT_EQ(found.optimizer, predicted.optimizer);
          EXPECT_EQ(found.host + s.gradients.host_bytes(), predicted.host);
          int64_t slices = 0;
          for (const Unit& unit : s.plan.units) slices += unit.trainable ? unit.layout.slice_count() : 0;
          const auto kept = static_cast<int64_t>(s.shards.optimizer_state_names().size());
          EXPECT_EQ(found.optimizer, host ? 0 : kept * slices * size_of(states));
          EXPECT_EQ(found.master, host || compute == states ? 0 : slices * size_of(states));
          EXPECT_GE(found.host, host ? (1 + kept) * slices * size_of(states) : 0);
        }
}

// Copies at once, and remembers what went up.
class RecordedCopies final : public Copies {
 public:
  explicit RecordedCopies(std::vector<const void*>& up) : up_(up) {}
  Event down(at::Tensor host, at::Tensor device, const Event& after) override {
    after.wait();
    host.copy_(device);
    return {};
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override {
    after.wait();
    device.copy_(host);
    up_.push_back(device.const_data_ptr());
    return {};
  }

 private:
  std::vector<const void*>& up_;
};

// The first layer reads biases and norms: on the host they come first, then the rest in the order of forward.
TEST(OptimizerShards, TheHostUpdatesInTheOrderOfForward) {
  std::vector<const void*> up;
  Shards s({.stage = 1, .compute = DType::bf16, .host = true}, std::make_unique<RecordedCopies>(up));
  s.set_initial();
  s.backward(0);
  up.clear();
  StepMemory now(at::kCPU);
  now.host.learning_rate = kRate;
  s.shards.update(now);
  s.shards.finish();
  std::vector<const void*> expected;
  for (const bool vectors : {true, false})
    for (size_t u = 0; u < s.plan.units.size(); ++u)
      if (s.plan.units[u].trainable && (s.plan.units[u].pool == BufferPool::persistent) == vectors)
        expected.push_back(s.weights.slice(static_cast<int>(u)).const_data_ptr());
  EXPECT_GT(expected.size(), 3U);
  EXPECT_EQ(up, expected);
}

TEST(OptimizerShards, InferenceHasWeightsAndNothingElse) {
  const auto self = test_world().self(), data = test_world().group("data", test_ranks());
  const std::vector<BlockParameters> blocks = model();
  for (int stage : {0, 3}) {
    const Zero zero = make_zero(stage, *self, *data);
    const UnitPlan plan = plan_units(blocks, {.ranks = zero.sharding.ranks, .weight = DType::bf16});
    const ParameterOptions options{.compute = DType::bf16, .training = false};
    CpuStream compute, communication;
    const std::vector<at::Tensor> masters = make_masters(plan, options);
    for (const at::Tensor& master : masters) EXPECT_FALSE(master.defined());
    WeightStore weights(plan, zero, {.masters = masters}, compute, communication);
    OptimizerShards shards(
        plan, options, masters,
        {.shard = *zero.shard, .weights = weights, .gradients = nullptr, .copies = nullptr, .compute = compute});
    shards.set([](const ParameterSpec&, const Box&, const at::Tensor& out) { out.fill_(2.5); });
    for (const OwnedBox& owned : shards.owned_boxes()) {
      ASSERT_EQ(owned.values.size(), 1U);
      EXPECT_EQ(dtype_of(owned.values[0]), DType::bf16);
      EXPECT_TRUE(owned.values[0].eq(2.5).all().item<bool>());
    }
    const OptimizerShards::Bytes bytes = shards.bytes();
    EXPECT_EQ(bytes.master + bytes.optimizer + bytes.host, 0);
  }
}

TEST(OptimizerShards, MastersAreTheTrainedSlicesInTheDtypeOfStates) {
  const UnitPlan plan = plan_units(model(), {.ranks = 3, .weight = DType::bf16});
  const std::vector<at::Tensor> masters = make_masters(plan, {.compute = DType::bf16});
  ASSERT_EQ(masters.size(), plan.units.size());
  for (size_t u = 0; u < masters.size(); ++u) {
    ASSERT_EQ(masters[u].defined(), plan.units[u].trainable);
    if (!masters[u].defined()) continue;
    EXPECT_EQ(masters[u].numel(), plan.units[u].layout.slice_count());
    EXPECT_EQ(dtype_of(masters[u]), DType::fp32);
    EXPECT_EQ(masters[u].abs().max().item<float>(), 0);
  }
  for (const ParameterOptions& none : {ParameterOptions{.compute = DType::bf16, .states = DType::bf16},
                                       ParameterOptions{.compute = DType::bf16, .states_on_host = true}})
    for (const at::Tensor& master : make_masters(plan, none)) EXPECT_FALSE(master.defined());
}

// 1500 rows of 1001: pieces of whole rows, none of more than 2^20 elements, each in its place.
TEST(FromHost, ReadsInPieces) {
  const ParameterSpec p{.name = "big", .shape = {2000, 1001}};
  const Box box{.row = 100, .rows = 1500, .column = 0, .columns = 1001};
  std::vector<Box> pieces;
  const FillWeights fill = from_host([&](const ParameterSpec& which, const Box& piece, std::span<float> out) {
    EXPECT_EQ(which.name, "big");
    EXPECT_EQ(out.size(), static_cast<size_t>(piece.count()));
    pieces.push_back(piece);
    for (int64_t r = 0; r < piece.rows; ++r)
      std::fill_n(out.begin() + r * piece.columns, piece.columns, static_cast<float>((piece.row + r) % 256));
  });
  const at::Tensor out = at::zeros({box.count()}, at::TensorOptions(at::kBFloat16));
  fill(p, box, out);
  ASSERT_EQ(pieces.size(), 2U);
  int64_t row = box.row;
  for (const Box& piece : pieces) {
    EXPECT_LE(piece.count(), 1 << 20);
    EXPECT_EQ(piece.row, row);
    EXPECT_EQ(piece.columns, 1001);
    row += piece.rows;
  }
  EXPECT_EQ(row, 1600);
  const at::Tensor wide = out.to(at::kFloat);
  for (int64_t r = 0; r < box.rows; ++r)
    for (const int64_t k : {0, 500, 1000})
      ASSERT_EQ(wide.data_ptr<float>()[r * 1001 + k], static_cast<float>((100 + r) % 256)) << r;
}

TEST(OptimizerShards, WrongOptionsAreNamed) {
  const auto error = [](const OptimizerOptions& options) {
    return error_message([&] { Shards({.optimizer = options}); });
  };
  EXPECT_THAT(error({.beta1 = 1}), HasSubstr("beta1 is 1, expected at least 0 and less than 1"));
  EXPECT_THAT(error({.kind = OptimizerKind::lamb, .epsilon = 0}), HasSubstr("epsilon is 0"));
  EXPECT_THAT(error({.kind = OptimizerKind::sgd, .momentum = -1}), HasSubstr("momentum is -1"));
  EXPECT_EQ(error({}), "no error");
}

}  // namespace
}  // namespace partita::internal
