#include "partita/interop/peft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// As PEFT 0.4 wrote it for Llama.
constexpr const char* kOld = R"({"auto_mapping": null, "base_model_name_or_path": "meta-llama/Llama-2-7b-hf",
  "bias": "none", "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true,
  "layers_pattern": null, "layers_to_transform": null, "lora_alpha": 16, "lora_dropout": 0.05, "modules_to_save": null,
  "peft_type": "LORA", "r": 8, "revision": null, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"})";

PeftConfig parse(const std::string& text, ModelKind kind = ModelKind::llama) {
  return parse_peft_config(text, "folder/adapter_config.json", kind);
}
std::string error_of(const json& fields, ModelKind kind = ModelKind::llama) {
  json root = json::parse(kOld);
  root.update(fields);
  return error_message([&] { (void)parse(root.dump(), kind); });
}

TEST(PeftConfig, ReadsPlainAdapters) {
  const PeftConfig peft = parse(kOld);
  EXPECT_EQ(peft.lora, (LoraConfig{.rank = 8, .alpha = 16, .dropout = 0.05, .targets = "q_proj,v_proj"}));
  EXPECT_EQ(peft.base, "meta-llama/Llama-2-7b-hf");
  EXPECT_TRUE(peft.warnings.empty());
  EXPECT_EQ(peft_base(kOld, "x"), "meta-llama/Llama-2-7b-hf");
  EXPECT_EQ(peft_base("{}", "x"), "");
}

TEST(PeftConfig, RefusesOtherAdapters) {
  const std::vector<std::pair<json, const char*>> cases = {
      {{{"peft_type", "IA3"}}, "peft_type is \"IA3\", supported: \"LORA\""},
      {{{"use_dora", true}}, "use_dora is true, supported: false or null"},
      {{{"use_rslora", true}}, "use_rslora is true"},
      {{{"bias", "all"}}, "bias is \"all\", supported: \"none\""},
      {{{"lora_bias", true}}, "lora_bias is true"},
      {{{"modules_to_save", {"lm_head"}}}, "modules_to_save is [\"lm_head\"]"},
      {{{"rank_pattern", {{"q_proj", 4}}}}, "rank_pattern is"},
      {{{"alpha_pattern", {{"q_proj", 4}}}}, "alpha_pattern is"},
      {{{"layers_to_transform", {0, 1}}}, "layers_to_transform is [0,1]"},
      {{{"layers_to_transform", 0}}, "layers_to_transform is 0"},
      {{{"target_modules", "all-linear"}}, "target_modules is \"all-linear\", supported: a list"},
      {{{"target_modules", json::array()}}, "target_modules is []"},
      {{{"target_modules", {"q_proj", 3}}}, "target_modules is"},
      {{{"target_modules", {"c_attn"}}}, "no linear \"c_attn\""},
      {{{"r", 0}}, "r is 0, supported: a rank of at least 1"},
      {{{"lora_dropout", 1.5}}, "lora.dropout is 1.5"},
      {{{"new_feature", 3}}, "the field new_feature = 3 is not known"},
  };
  for (const auto& [fields, message] : cases)
    EXPECT_THAT(error_of(fields), AllOf(HasSubstr("folder/adapter_config.json"), HasSubstr(message))) << fields;
  for (const json& init : {json("pissa"), json("pissa_niter_4"), json("olora"), json("corda"), json("loftq"),
                           json("lora_ga"), json("future"), json(1)})
    EXPECT_THAT(
        error_of({{"init_lora_weights", init}}),
        AllOf(HasSubstr("folder/adapter_config.json: init_lora_weights is " + init.dump()),
              HasSubstr("the adapters fit only those: convert them to plain LoRA with PEFT (save_pretrained(..., "
                        "path_initial_model_for_weight_conversion=...)), or merge them there"),
              HasSubstr("(merge_and_unload)")));
  for (const json& init : {json(true), json(false), json("gaussian"), json("eva"), json("orthogonal"), json("mica")})
    EXPECT_EQ(error_of({{"init_lora_weights", init}}), "no error") << init;
  EXPECT_EQ(error_of({{"layers_to_transform", json::array()}}), "no error");  // of PEFT: all layers
  EXPECT_EQ(error_of({{"rank_pattern", json::object()}, {"use_dora", false}, {"loftq_config", json::object()}}),
            "no error");
}

TEST(PeftConfig, WritesWhatItReads) {
  for (const auto& [targets, kind, names] :
       {std::tuple("q_proj,v_proj", ModelKind::llama, json{"q_proj", "v_proj"}),
        std::tuple("", ModelKind::llama, json{"q_proj", "k_proj", "v_proj", "o_proj"}),
        std::tuple("c_attn,c_proj", ModelKind::gpt2, json{"c_attn", "c_proj"}),
        // c_proj alone would mean the MLP's too.
        std::tuple("attn.c_proj", ModelKind::gpt2, json::array({"attn.c_proj"}))}) {
    const LoraConfig lora{.rank = 3, .alpha = 7, .dropout = 0.25, .targets = targets};
    const json written = json::parse(peft_config_text(lora, kind, "base"));
    EXPECT_EQ(written["target_modules"], names);
    EXPECT_EQ(written["lora_alpha"], 7);
    EXPECT_EQ(written["fan_in_fan_out"], kind == ModelKind::gpt2);
    const PeftConfig back = parse(written.dump(), kind);
    EXPECT_EQ(back.lora.rank, 3);
    EXPECT_EQ(back.lora.alpha, 7);
    EXPECT_EQ(back.lora.dropout, 0.25);
    EXPECT_EQ(back.base, "base");
    const auto before = adapted_targets(lora, kind), after = adapted_targets(back.lora, kind);
    ASSERT_EQ(before.size(), after.size()) << targets;
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].part, after[i].part);
  }
  EXPECT_EQ(json::parse(peft_config_text({.rank = 2, .alpha = 0.5}, ModelKind::gpt2, ""))["lora_alpha"], 0.5);
}

}  // namespace
}  // namespace partita::internal
