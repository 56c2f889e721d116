// Predicted memory equals allocated memory: make_engine compares them by owner.
#include <gtest/gtest.h>

#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::Groups;

TEST(PredictedMemory, IsWhatAnEngineTakes) {
  Groups groups;
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (int stage = 0; stage <= 3; ++stage)
      for (const auto& [compute, states] : {std::pair(DType::fp32, DType::fp32), std::pair(DType::bf16, DType::fp32),
                                            std::pair(DType::bf16, DType::bf16), std::pair(DType::fp16, DType::fp32)})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::mlp, Recompute::full})
          for (const int micro_batches : {1, 2})
            for (const int lora : {0, 3})
              for (const int offload : {0, 1, 2, 3}) {
                EngineCase c{.kind = kind,
                             .lora = {.rank = lora, .targets = lora > 0 ? "q_proj,v_proj" : ""},
                             .stage = stage,
                             .micro_batches = micro_batches,
                             .recompute = recompute,
                             .full_recompute_layers = recompute == Recompute::selective ? 2 : 0,
                             .compute = compute,
                             .states = states,
                             .offload = {.optimizer = offload == 3 ? 0.5 : offload > 0 ? 1 : 0,
                                         .activations = offload == 2 ? 4 : 0,
                                         .copies = {}}};
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
