// Predicted memory equals allocated memory: make_engine compares them by owner.
#include <gtest/gtest.h>

#include "tests/engine/zero_reference.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::Groups;

TEST(PredictedMemory, IsWhatAnEngineTakes) {
  Groups groups;
  const TemporaryDirectory folder;
  const std::vector<Offload> offloads = {
      {},
      {.optimizer = 1},
      {.optimizer = 1, .activations = 4},
      {.optimizer = 0.5},
      {.optimizer = 1, .weights = 1, .gradients = true},
      {.optimizer = 0.5, .disk = 0.5, .disk_folder = folder.path(), .weights = 0.4, .weights_disk = 0.4}};
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (int stage = 0; stage <= 3; ++stage)
      for (const auto& [compute, states] : {std::pair(DType::fp32, DType::fp32), std::pair(DType::bf16, DType::fp32),
                                            std::pair(DType::bf16, DType::bf16), std::pair(DType::fp16, DType::fp32)})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::mlp, Recompute::full})
          for (const int micro_batches : {1, 2})
            for (const int lora : {0, 3})
              for (int offload = 0; offload < 6; ++offload) {
                EngineCase c{.kind = kind,
                             .lora = {.rank = lora, .targets = lora > 0 ? "q_proj,v_proj" : ""},
                             .stage = stage,
                             .micro_batches = micro_batches,
                             .recompute = recompute,
                             .full_recompute_layers = recompute == Recompute::selective ? 2 : 0,
                             .compute = compute,
                             .states = states,
                             .offload = offloads[static_cast<size_t>(offload)]};
                if (kind == ModelKind::gpt2 && lora > 0) c.lora.targets = "c_attn";
                if (stage == 1) c.optimizer = OptimizerKind::sgd;
                const auto engine = test::make_engine(c, *groups.self, *groups.data);
                const EngineMemory m = engine->memory();
                EXPECT_GT(m.weights, 0);
                EXPECT_GT(m.gradients, 0);
                EXPECT_GT(m.optimizer + m.host, 0);
                ASSERT_FALSE(testing::Test::HasFailure())
                    << "kind " << static_cast<int>(kind) << ", stage " << stage << ", compute " << name_of(compute)
                    << ", states " << name_of(states) << ", recompute " << name_of(recompute) << ", micro-batches "
                    << micro_batches << ", lora " << lora << ", offload " << offload;
              }
}

}  // namespace
}  // namespace partita::internal
