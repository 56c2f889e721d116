// The contents of an engine's checkpoint, on one rank and on several.
#include "partita/train/engine_checkpoint.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>

#include <cstring>
#include <set>
#include <vector>

#include "partita/checkpoint/tiling.h"
#include "partita/models/model.h"
#include "partita/train/checkpoint_pieces.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

// Frozen adapters belong to the adapters: without them nobody could use the trained ones.
TEST(EngineState, AdaptersAreAllAdapters) {
  const auto self = test_world().self();
  const auto data = test_world().group("data", test_ranks());
  const ModelConfig model{.layers = 2, .hidden_size = 24, .heads = 3, .vocab_size = 31, .max_length = 8};
  for (const int stage : {0, 1, 3}) {
    const Engine engine(make_blocks(model, DType::fp32, {.rank = 3, .targets = "c_attn"}),
                        make_zero(stage, *self, *data), *data,
                        {.shape = {.samples = 1, .length = 8}, .width = 24, .frozen = [](const ParameterSpec& p) {
                           return !p.name.ends_with(".lora_b");
                         }});
    std::set<std::string> names;
    for (const TensorInfo& tensor : wanted_contents(engine, Part::adapters).tensors) names.insert(tensor.name);
    EXPECT_THAT(names,
                testing::ElementsAre("adamw.m/layers.0.attention.qkv.lora_b", "adamw.m/layers.1.attention.qkv.lora_b",
                                     "adamw.v/layers.0.attention.qkv.lora_b", "adamw.v/layers.1.attention.qkv.lora_b",
                                     "model/layers.0.attention.qkv.lora_a", "model/layers.0.attention.qkv.lora_b",
                                     "model/layers.1.attention.qkv.lora_a", "model/layers.1.attention.qkv.lora_b"));
  }
}

// Ranks that hold the same slices write each element once, and matrices by whole rows.
TEST(EngineState, ReplicasShareWhatTheyWrite) {
  const auto self = test_world().self();
  const ModelConfig model{.layers = 2, .hidden_size = 24, .heads = 3, .vocab_size = 31, .max_length = 8};
  const Engine engine(make_blocks(model, DType::fp32), make_zero(0, *self, *self), *self,
                      {.shape = {.samples = 1, .length = 8}, .width = 24});
  for (const int replicas : {1, 2, 5, 40}) {
    std::vector<TensorInfo> tensors;
    std::vector<std::vector<Box>> boxes;
    for (int replica = 0; replica < replicas; ++replica) {
      const CheckpointContents state = saved_contents(engine, Part::all, replica, replicas);
      tensors = state.tensors;
      boxes.resize(tensors.size());
      for (const Piece& piece : state.pieces) {
        const TensorInfo& tensor = tensors[static_cast<size_t>(piece.tensor)];
        boxes[static_cast<size_t>(piece.tensor)].push_back(piece.box);
        if (tensor.shape.size() > 1 && tensor.shape[0] >= replicas) {
          EXPECT_EQ(piece.box.columns, tensor.shape[1]) << tensor.name;
        }
      }
    }
    for (size_t t = 0; t < tensors.size(); ++t) EXPECT_NO_THROW(check_tiling(tensors[t], boxes[t])) << replicas;
  }
}

// What a checkpoint does with values on a device, here on the CPU: any run of bytes, each dtype, nothing beside it.
TEST(EngineState, ValuesAreReadAndWrittenInParts) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor all = at::arange(40, at::TensorOptions(at::kFloat)).to(dtype), before = all.clone();
    const at::Tensor values = all.narrow(0, 5, 23);
    const int64_t item = values.element_size();
    const auto memory = far_memory(values, std::make_shared<const DeviceReads>(at::kCPU));
    std::vector<std::byte> bytes(static_cast<size_t>(7 * item));
    memory->read(11 * item, bytes);
    EXPECT_EQ(
        std::memcmp(bytes.data(), static_cast<const std::byte*>(values.const_data_ptr()) + 11 * item, bytes.size()), 0);
    memory->write(2 * item, bytes);
    for (int64_t i = 0; i < 40; ++i) {
      const bool written = i >= 7 && i < 14;
      EXPECT_EQ(all[i].item().toFloat(), before[written ? i + 9 : i].item().toFloat()) << i;
    }
  }
}

}  // namespace
}  // namespace partita::internal
