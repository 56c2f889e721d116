// Tensor and sequence parallelism, with data parallelism and ZeRO, reproduce the single-process run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/comm/mesh.h"
#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::expect_equal;
using test::expect_same_values;

constexpr int64_t kSamples = 12;  // of a step
constexpr int64_t kSteps = 3;

// The groups of this rank in a mesh of tensor x data ranks.
struct Groups {
  Groups(int tensor_ranks, int64_t kv_heads) : layout(sizes(tensor_ranks, kv_heads), test_world().size()) {
    const int rank = test_world().rank();
    const auto group = [](const char* name, const std::vector<int>& ranks) { return test_world().group(name, ranks); };
    data = group("data", layout.data_group(rank));
    tensor = group("tensor", layout.tensor_group(rank));
    key_value = group("kv", layout.key_value_group(rank));
  }
  static MeshLayout::Sizes sizes(int tensor_ranks, int64_t kv_heads) {
    return {.data = test_world().size() / tensor_ranks, .tensor = tensor_ranks, .kv_heads = static_cast<int>(kv_heads)};
  }
  [[nodiscard]] std::unique_ptr<Engine> engine(const EngineCase& c) const {
    return test::make_engine(c, *self, *data, tensor->size() > 1 ? tensor.get() : nullptr,
                             key_value->size() > 1 ? key_value.get() : nullptr);
  }

  MeshLayout layout;
  std::unique_ptr<Communicator> self = test_world().self();
  std::unique_ptr<Communicator> data, tensor, key_value;
};

std::vector<int> tensor_sizes() {
  std::vector<int> sizes;
  for (int t = 2; t <= test_world().size(); ++t)
    if (test_world().size() % t == 0) sizes.push_back(t);
  return sizes;
}

struct Kind {
  std::string name;
  EngineCase c;
};

// GPT-2 with five heads, which no number of ranks divides; Llama with two key/value heads, of which four ranks share
// each.
std::vector<Kind> kinds() {
  const LoraConfig gpt2_lora{.rank = 3, .alpha = 5, .dropout = 0.1, .targets = "c_attn,c_proj,c_fc"},
      llama_lora{
          .rank = 3, .alpha = 5, .dropout = 0.1, .targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"};
  const auto frozen = [](const ParameterSpec& p) {
    return p.name.starts_with("embedding.") || p.name.starts_with("layers.0.") ||
           p.name == "layers.2.mlp.down.weight" || p.name == "layers.3.attention.norm.weight";
  };
  const ModelKind llama = ModelKind::llama;
  return {{"gpt2", {.heads = 5}},
          {"gpt2, untied, full recomputation", {.tied_head = TiedHead::no, .recompute = Recompute::full, .heads = 5}},
          {"gpt2, adapters, mlp recomputation", {.lora = gpt2_lora, .recompute = Recompute::mlp, .heads = 5}},
          {"gpt2, frozen in part", {.tied_head = TiedHead::no, .frozen = frozen, .heads = 5}},
          {"llama", {.kind = llama}},
          {"llama, tied, selective recomputation",
           {.kind = llama, .tied_head = TiedHead::yes, .recompute = Recompute::selective}},
          {"llama, adapters, full recomputation", {.kind = llama, .lora = llama_lora, .recompute = Recompute::full}},
          {"llama, LAMB", {.kind = llama, .optimizer = OptimizerKind::lamb}}};
}

// Calls visit(groups, case, what) for a quarter of the product of layouts, another one for each kind, so that each pair
// of settings occurs.
template <class Visit>
void each_layout(const Kind& kind, int number, Visit visit) {
  for (const int tensor : tensor_sizes())
    for (const bool sequence : {false, true})
      for (const int stage : {0, 1, 2, 3})
        for (const int micro_batches : {1, 3}) {
          if ((stage + (sequence ? 2 : 0) + (micro_batches > 1 ? 1 : 0) + number) % 4 != 0) continue;
          const Groups groups(tensor, test::model_of(kind.c).key_value_heads());
          EngineCase c = kind.c;
          c.stage = stage;
          c.sequence = sequence;
          c.micro_batches = micro_batches;
          c.samples = static_cast<int>(kSamples) / groups.data->size() / micro_batches;
          visit(groups, c,
                fmt::format("{}, tensor {}, sequence {}, data {}, stage {}, micro-batches {}", kind.name, tensor,
                            sequence, groups.data->size(), stage, micro_batches));
        }
}

TEST(TensorParallel, IsTheSingleProcessRun) {
  int number = 0;
  for (const Kind& kind : kinds()) {
    EngineCase one = kind.c;
    one.samples = static_cast<int>(kSamples);
    const Groups alone(1, 0);
    const auto whole = test::make_engine(one, *alone.self, *alone.self);
    const std::vector<StepResult> expected = test::run_steps(*whole, one, 0, 1, 0, kSteps);
    each_layout(kind, number++, [&](const Groups& groups, const EngineCase& c, const std::string& what) {
      const auto engine = groups.engine(c);
      expect_equal(test::run_steps(*engine, c, groups.data->rank(), groups.data->size(), 0, kSteps), expected, 1e-5,
                   what);
    });
  }
}

// Each gradient, as the first moments of a step that changes no weight.
TEST(TensorParallel, EveryGradientIsTheSingleProcessGradient) {
  int number = 0;
  for (const Kind& kind : kinds()) {
    const auto step = [](Engine& engine, const EngineCase& c, int rank, int ranks) {
      return engine.step(test::rank_batches(c, 0, rank, ranks), {.learning_rate = 0, .clip = 0});
    };
    EngineCase one = kind.c;
    one.samples = static_cast<int>(kSamples);
    const Groups alone(1, 0);
    const auto whole = test::make_engine(one, *alone.self, *alone.self);
    step(*whole, one, 0, 1);
    each_layout(kind, number++, [&](const Groups& groups, const EngineCase& c, const std::string& what) {
      const auto engine = groups.engine(c);
      step(*engine, c, groups.data->rank(), groups.data->size());
      expect_same_values(*engine, *whole, what, 2e-5);
    });
  }
}

// The bits of a run, on this rank: losses, norms, weights and optimizer states.
std::vector<double> bits_of(const Groups& groups, const EngineCase& c) {
  const auto engine = groups.engine(c);
  std::vector<double> bits;
  for (const StepResult& r : test::run_steps(*engine, c, groups.data->rank(), groups.data->size(), 0, kSteps)) {
    bits.push_back(r.loss);
    bits.push_back(r.grad_norm);
  }
  for (const OwnedBox& owned : engine->owned_boxes())
    for (const at::Tensor& values : owned.values) bits.push_back(values.to(at::kDouble).sum().item<double>());
  return bits;
}

TEST(SequenceParallel, ChangesNoBit) {
  for (const auto& [name, like] : kinds())
    for (const int tensor : tensor_sizes())
      for (const DType compute : {DType::fp32, DType::bf16}) {
        const Groups groups(tensor, test::model_of(like).key_value_heads());
        EngineCase c = like;
        c.compute = compute;
        c.stage = 2;
        c.micro_batches = 2;
        c.samples = tensor;  // whose rows the ranks divide
        const std::vector<double> off = bits_of(groups, c);
        c.sequence = true;
        EXPECT_EQ(bits_of(groups, c), off) << name << ", tensor " << tensor << ", " << name_of(compute);
      }
}

}  // namespace
}  // namespace partita::internal
