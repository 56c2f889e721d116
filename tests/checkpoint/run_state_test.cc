// gcc 12 falsely reports the map of a temporary StoredTypes as uninitialized if its construction throws.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "partita/checkpoint/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

RunState llama_with_adapters() {
  return {.step = 7,
          .consumed_samples = 56,
          .skipped_steps = 2,
          .nan_steps = 1,
          .loss_scale = 4096,
          .clean_steps = 5,
          .amax_history = {0.1F, 0, 3e-7F},
          .model = {.kind = ModelKind::llama,
                    .layers = 2,
                    .hidden_size = 20,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_width = 6,
                    .ffn_hidden_size = 40,
                    .vocab_size = 61,
                    .max_length = 32,
                    .tied_head = TiedHead::yes,
                    .norm_epsilon = 1e-6,
                    .rope_theta = 500000,
                    .rope_factor = 8},
          .lora = {.rank = 4, .alpha = 8, .dropout = 0.1, .targets = "q_proj"},
          .base = "/models/base",
          .stored_as = {.usual = ElementType::bf16, .others = {{"model.norm.weight", ElementType::f32}}},
          .identity = {{"train.seed", "1"}}};
}

TEST(RunState, ReadsWhatItWrote) {
  const RunState before = llama_with_adapters(), after = run_state(to_json(before), "folder");
  EXPECT_EQ(after.step, 7);
  EXPECT_EQ(after.consumed_samples, 56);
  EXPECT_EQ(after.skipped_steps, 2);
  EXPECT_EQ(after.nan_steps, 1);
  EXPECT_EQ(after.loss_scale, 4096);
  EXPECT_EQ(after.clean_steps, 5);
  EXPECT_EQ(after.amax_history, before.amax_history);
  EXPECT_EQ(after.model, before.model);
  EXPECT_EQ(after.lora, before.lora);
  EXPECT_EQ(after.base, before.base);
  EXPECT_EQ(after.stored_as, before.stored_as);
  EXPECT_EQ(after.identity, before.identity);
}

// What the first version wrote: gpt2 alone, without the keys of llama.
TEST(RunState, ReadsCheckpointsFromBeforeLlama) {
  nlohmann::json json = to_json({.step = 3,
                                 .model = {.layers = 2, .hidden_size = 24, .heads = 3, .vocab_size = 61},
                                 .identity = {{"train.seed", "1"}}});
  for (const char* key : {"kv_heads", "head_width", "tied_head", "rope_theta", "rope_factor", "rope_low_frequency",
                          "rope_high_frequency", "rope_original_length"})
    json["model"].erase(key);
  const ModelConfig model = run_state(json, "folder").model;
  EXPECT_EQ(model.kind, ModelKind::gpt2);
  EXPECT_TRUE(model.has_tied_head());
  EXPECT_EQ(model.key_value_heads(), 3);
  EXPECT_EQ(model.head_size(), 8);
}

TEST(RunState, NamesWhatIsWrong) {
  const auto error_with = [](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json json = to_json(llama_with_adapters());
    change(json);
    return error_message([&] { (void)run_state(json, "folder"); });
  };
  EXPECT_THAT(error_with([](auto& j) { j["model"]["kind"] = "mamba"; }),
              HasSubstr("training run: model.kind is \"mamba\""));
  EXPECT_THAT(error_with([](auto& j) { j.erase("step"); }),
              HasSubstr("folder is not a checkpoint of a training run: it has no 'step'"));
  EXPECT_THAT(error_with([](auto& j) { j.erase("identity"); }), HasSubstr("it has no 'identity'"));
  for (const char* name : {"step", "consumed_samples", "skipped_steps", "nan_steps"})
    for (const nlohmann::json& value : {nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json(int64_t{1} << 62),
                                        nlohmann::json("x"), nlohmann::json(UINT64_MAX), nlohmann::json(true)})
      EXPECT_THAT(error_with([&](auto& j) { j[name] = value; }),
                  HasSubstr(std::string("run: ") + name + " is " + value.dump()));
  EXPECT_THAT(error_with([](auto& j) { j["model"]["layers"] = int64_t{1} << 62; }), HasSubstr("model.layers is 46"));
  EXPECT_THAT(error_with([](auto& j) { j["model"]["heads"] = 0; }), HasSubstr("model.heads is 0"));
  EXPECT_THAT(error_with([](auto& j) { j["model"]["dropout"] = 2; }), HasSubstr("model.dropout is 2"));
  EXPECT_THAT(error_with([](auto& j) { j["model"] = nlohmann::json::array(); }), HasSubstr("model is []"));
  EXPECT_THAT(error_with([](auto& j) { j["lora"]["rank"] = 0; }), HasSubstr("lora.rank is 0"));
  EXPECT_THAT(error_with([](auto& j) { j["loss_scale"]["scale"] = -4; }), HasSubstr("loss_scale.scale is -4"));
  EXPECT_THAT(error_with([](auto& j) { j["planned_samples"] = {1.5}; }), HasSubstr("planned_samples[0] is 1.5"));
  EXPECT_THAT(error_with([](auto& j) { j["stored_as"] = 3; }), HasSubstr("training run: "));
}

TEST(RunState, AndItsManifestSayTheSameStep) {
  Manifest manifest{.step = 7, .ranks = 1, .scalars = to_json(llama_with_adapters())};
  EXPECT_EQ(run_state(manifest, "folder").step, 7);
  manifest.step = 8;
  EXPECT_THAT(error_message([&] { (void)run_state(manifest, "folder"); }),
              HasSubstr("step 8, but its run was at step 7"));
}

TEST(RunState, AnotherModelIsAnError) {
  const RunState saved = llama_with_adapters();
  check_same_model(saved, saved.model, saved.lora, "folder");
  ModelConfig dropout = saved.model;
  dropout.dropout = 0.3;
  check_same_model(saved, dropout, saved.lora, "folder");

  const auto message = [&](auto change) {
    ModelConfig model = saved.model;
    LoraConfig lora = saved.lora;
    change(model, lora);
    return error_message([&] { check_same_model(saved, model, lora, "folder"); });
  };
  EXPECT_THAT(message([](ModelConfig& m, LoraConfig&) { m.kind = ModelKind::gpt2; }),
              HasSubstr("model.kind is llama there and gpt2 here"));
  EXPECT_THAT(message([](ModelConfig& m, LoraConfig&) { m.kv_heads = 4; }),
              HasSubstr("model.kv_heads is 2 there and 4"));
  EXPECT_THAT(message([](ModelConfig& m, LoraConfig&) { m.tied_head = TiedHead::no; }), HasSubstr("model.tied_head"));
  EXPECT_THAT(message([](ModelConfig& m, LoraConfig&) { m.rope_theta = 10000; }), HasSubstr("model.rope_theta"));
  EXPECT_THAT(message([](ModelConfig&, LoraConfig& l) { l.rank = 0; }), HasSubstr("lora.rank is 4 there and 0 here"));
  EXPECT_THAT(message([](ModelConfig&, LoraConfig& l) { l.targets = ""; }),
              HasSubstr("lora.targets is self_attn.q_proj there"));
}

}  // namespace
}  // namespace partita::internal
