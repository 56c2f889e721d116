// The groups of this rank in a mesh of all ranks, and engines on them.
//
//   const MeshGroups groups({.tensor = 2, .pipeline = 2}, model);
//   const auto engine = groups.engine(c);
#pragma once
#include <memory>

#include "partita/comm/mesh.h"
#include "tests/engine/small_model.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

struct MeshGroups {
  // sizes.data is what the others leave.
  MeshGroups(MeshLayout::Sizes sizes, const ModelConfig& model)
      : layout(complete(sizes, model), test_world().size()), place(layout.position(test_world().rank())) {
    const int rank = test_world().rank();
    const auto group = [](const char* name, const std::vector<int>& ranks) { return test_world().group(name, ranks); };
    data = group("data", layout.data_group(rank));
    context = group("context", layout.context_group(rank));
    data_context = group("data and context", layout.data_context_group(rank));
    tensor = group("tensor", layout.tensor_group(rank));
    key_value = group("kv", layout.key_value_group(rank));
    pipeline = group("pipeline", layout.pipeline_group(rank));
    ends = group("ends", layout.ends_group(rank));
    if (layout.sizes().pipeline > 1) edges = std::make_unique<PipelineEdges>(test_world(), layout.pipeline_group(rank));
  }
  static MeshLayout::Sizes complete(MeshLayout::Sizes sizes, const ModelConfig& model) {
    sizes.data = test_world().size() / (sizes.tensor * sizes.pipeline * sizes.context);
    sizes.kv_heads = static_cast<int>(model.key_value_heads());
    return sizes;
  }
  [[nodiscard]] std::unique_ptr<Engine> engine(const EngineCase& c, Shape shape = {0, 0}) const {
    const auto of = [](const std::unique_ptr<Communicator>& group) {
      return group->size() > 1 ? group.get() : nullptr;
    };
    return make_engine(c, *self, *data_context,
                       {.tensor = of(tensor),
                        .key_value = of(key_value),
                        .pipeline = of(pipeline),
                        .ends = of(ends),
                        .edges = edges.get(),
                        .context = of(context)},
                       shape);
  }
  [[nodiscard]] ContextSplit split() const { return {.rank = context->rank(), .ranks = context->size()}; }

  MeshLayout layout;
  MeshLayout::Position place;
  std::unique_ptr<Communicator> self = test_world().self();
  std::unique_ptr<Communicator> data, context, data_context, tensor, key_value, pipeline, ends;
  std::unique_ptr<PipelineEdges> edges;
};

// The bits of a run, on this rank: losses, norms, weights, optimizer states and the history of fp8 scales.
inline std::vector<double> bits_of(const MeshGroups& groups, const EngineCase& c, int64_t steps) {
  const auto engine = groups.engine(c);
  std::vector<double> bits;
  for (const StepResult& r : run_steps(*engine, c, groups.data->rank(), groups.data->size(), 0, steps)) {
    bits.push_back(r.loss);
    bits.push_back(r.grad_norm);
  }
  for (const OwnedBox& owned : engine->owned_boxes())
    for (const at::Tensor& values : owned.values) {
      const at::Tensor wide = values.to(at::kDouble);
      bits.insert(bits.end(), wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel());
    }
  const std::vector<float> history = engine->amax_history();
  bits.insert(bits.end(), history.begin(), history.end());
  return bits;
}

// A step that changes no weight, and whose gradients are the first moments then.
inline void gradient_step(Engine& engine, const EngineCase& c, int rank, int ranks) {
  engine.step(rank_batches(c, 0, rank, ranks), {.learning_rate = 0, .clip = 0});
}

}  // namespace partita::internal::test
