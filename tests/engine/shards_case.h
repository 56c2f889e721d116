// Shared by the tests of OptimizerShards: a model whose slices begin and end anywhere, gradients that are exact in any
// order of sums, and the optimizers over whole parameters that every update is compared with.
#pragma once
#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "partita/base/random.h"
#include "partita/engine/optimizer_shards.h"
#include "partita/ops/step_memory.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"
#include "tests/support/reference_optimizer.h"

namespace partita::internal::test {

// Matrices of odd sizes that slices cut inside rows; a tied table, frozen ones, a vector that two blocks write, a
// matrix that nobody writes. The same on every rank.
std::vector<BlockParameters> model(unsigned seed = 1);

inline int64_t key_of(const std::string& name) { return static_cast<int64_t>(hash_of(name) % 13); }

// What block `block` of a rank adds in a micro-batch: few bits, so that sums are exact in any order.
double contribution(const ParameterSpec& p, int64_t i, int rank, int step, int micro_batch, int block);
// Exact in bf16, never 0.
double initial(const ParameterSpec& p, int64_t i);

at::Tensor tensor_of(const std::vector<int64_t>& shape, const Values& values, at::ScalarType dtype);

struct Case {
  OptimizerOptions optimizer;
  int stage = 0;
  DType compute = DType::fp32, states = DType::fp32, gradient = DType::fp32;
  int micro_batches = 1;
  bool host = false;
  unsigned late = 20;  // share of copies that are made at once: LateCopies
  unsigned seed = 1;   // of the model
};

std::string name_of(const Case& c);

// The shards of a model with all that they work with.
class Shards {
 public:
  explicit Shards(const Case& the_case, std::unique_ptr<Copies> the_copies = nullptr)
      : c(the_case),
        self(test_world().self()),
        data(test_world().group("data", test_ranks())),
        zero(make_zero(c.stage, *self, *data)),
        blocks(model(c.seed)),
        plan(placed(plan_units(blocks, {.ranks = zero.sharding.ranks,
                                        .weight = c.compute,
                                        .matrix_gradient = c.gradient,
                                        .matrix_gradient_sum = c.micro_batches > 1 ? DType::fp32 : c.gradient,
                                        .layers_per_unit = 1}),
                    c)),
        options({.compute = c.compute,
                 .states = c.states,
                 .micro_batches = c.micro_batches,
                 .optimizer = c.optimizer,
                 .poison = true}),
        copies(the_copies ? std::move(the_copies) : std::make_unique<test::LateCopies>(c.seed, c.late)),
        masters(make_masters(plan, options)),
        weights(plan, zero, {.poison = true, .masters = masters}, compute, communication),
        gradients(plan, zero,
                  {.micro_batches = c.micro_batches, .poison = true, .copies = copies.get()},
                  compute, communication),
        shards(plan, options, masters,
               {.shard = *zero.shard,
                .weights = weights,
                .gradients = &gradients,
                .copies = copies.get(),
                .compute = compute,
                .update = compute}) {
    for (const Unit& unit : plan.units)
      for (const ParameterSpec& p : unit.layout.parameters) parameters[p.name] = &p;
  }
  Shards(const Shards&) = delete;

  static UnitPlan placed(UnitPlan plan, const Case& c) {
    place_states(plan, {.host = c.host ? 1.0 : 0.0}, c.micro_batches == 1);
    return plan;
  }

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

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);
bool equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b);

// visit(element of the box, its index in the whole parameter), until an ASSERT fails.
template <class Visit>
void each_element(const OwnedBox& owned, Visit visit) {
  const int64_t columns = whole_box(owned.parameter->shape).columns;
  for (int64_t r = 0; r < owned.box.rows; ++r)
    for (int64_t k = 0; k < owned.box.columns && !testing::Test::HasFatalFailure(); ++k)
      visit(r * owned.box.columns + k, static_cast<size_t>((owned.box.row + r) * columns + owned.box.column + k));
}

std::map<std::string, Reference> references(const Shards& s);

// The slices of this rank and the weights gathered from all: fp32 states, so within a few of their roundings.
void expect_state(Shards& s, const std::map<std::string, Reference>& expected);

inline const OptimizerOptions kOptimizers[] = {{.kind = OptimizerKind::adamw},
                                               {.kind = OptimizerKind::sgd},
                                               {.kind = OptimizerKind::sgd, .momentum = 0},
                                               {.kind = OptimizerKind::lamb, .weight_decay = 0.3}};

inline constexpr float kRate = 1.0F / 16;

// min(1, most / norm), as the engine clips.
inline float clip_factor(double norm, double most) { return static_cast<float>(std::min(1.0, most / (norm + 1e-6))); }

}  // namespace partita::internal::test
