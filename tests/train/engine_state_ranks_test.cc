// What a checkpoint has of an engine, on one rank and on several.
#include "partita/train/engine_state.h"

#include <gmock/gmock.h>

#include <set>

#include "partita/models/model.h"
#include "tests/support/ranks.h"

namespace partita {
namespace {

// Frozen adapters belong to the adapters: without them nobody could use the trained ones.
TEST(EngineState, AdaptersAreAllAdapters) {
  const auto self = test_world().group("self", {test_world().rank()});
  const auto data = test_world().group("data", test_ranks());
  const ModelConfig model{.layers = 2, .hidden_size = 24, .heads = 3, .vocab_size = 31, .max_length = 8};
  for (const int stage : {0, 1, 3}) {
    const Engine engine(make_blocks(model, DType::fp32, {.rank = 3, .targets = "c_attn"}),
                        make_zero(stage, *self, *data), *data,
                        {.shape = {.samples = 1, .length = 8}, .width = 24, .frozen = [](const ParameterSpec& p) {
                           return !p.name.ends_with(".lora_b");
                         }});
    std::set<std::string> names;
    for (const TensorInfo& tensor : wanted_state(engine, Part::adapters).tensors) names.insert(tensor.name);
    EXPECT_THAT(names,
                testing::ElementsAre("adamw.m/layers.0.attention.qkv.lora_b", "adamw.m/layers.1.attention.qkv.lora_b",
                                     "adamw.v/layers.0.attention.qkv.lora_b", "adamw.v/layers.1.attention.qkv.lora_b",
                                     "model/layers.0.attention.qkv.lora_a", "model/layers.0.attention.qkv.lora_b",
                                     "model/layers.1.attention.qkv.lora_a", "model/layers.1.attention.qkv.lora_b"));
  }
}

}  // namespace
}  // namespace partita
