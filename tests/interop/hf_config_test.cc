#include "partita/interop/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Published files, as they are in the folders of that name.
constexpr const char* kGpt2 = R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
  "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
  "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})";
constexpr const char* kGpt2Xl = R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 1600, "n_head": 25, "n_layer": 48,
  "n_positions": 1024, "output_past": true, "resid_pdrop": 0.1, "summary_activation": null,
  "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
  "vocab_size": 50257})";
constexpr const char* kLlama2 = R"({"_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"],
  "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true,
  "vocab_size": 32000})";
constexpr const char* kLlama1 = R"({"architectures": ["LLaMAForCausalLM"], "bos_token_id": 0, "eos_token_id": 1,
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008, "initializer_range": 0.02,
  "max_sequence_length": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "pad_token_id": -1, "rms_norm_eps": 1e-06, "torch_dtype": "float16", "transformers_version": "4.27.0.dev0",
  "use_cache": true, "vocab_size": 32000})";
constexpr const char* kLlama32 = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
  "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0",
  "use_cache": true, "vocab_size": 128256})";
constexpr const char* kTinyLlama = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.35.0",
  "use_cache": true, "vocab_size": 32000})";

HfConfig parse(std::string_view text) { return parse_hf_config(text, "folder/config.json"); }

// `base` with fields put in or replaced.
std::string with(const char* base, const json& fields) {
  json root = json::parse(base);
  root.update(fields);
  return root.dump();
}
std::string error_of(const std::string& text) {
  return error_message([&] { (void)parse(text); });
}

TEST(HfConfig, ReadsPublishedGpt2) {
  const HfConfig hf = parse(kGpt2);
  EXPECT_EQ(hf.model, (ModelConfig{.kind = ModelKind::gpt2,
                                   .layers = 12,
                                   .hidden_size = 768,
                                   .heads = 12,
                                   .ffn_hidden_size = 3072,
                                   .vocab_size = 50257,
                                   .max_length = 1024,
                                   .tied_head = TiedHead::yes,
                                   .dropout = 0.1,
                                   .embedding_dropout = 0.1,
                                   .attention_dropout = 0.1}));
  EXPECT_TRUE(hf.warnings.empty());
  EXPECT_EQ(hf.tokens, (json{{"bos_token_id", 50256}, {"eos_token_id", 50256}}));
  EXPECT_EQ(parameter_count(parse(kGpt2Xl).model), 1'557'611'200);
  EXPECT_EQ(parse(kGpt2Xl).model.heads, 25);
}

// Counts as the models' cards and papers have them.
TEST(HfConfig, ReadsPublishedLlamas) {
  EXPECT_EQ(parameter_count(parse(kLlama2).model), 6'738'415'616);
  EXPECT_EQ(parameter_count(parse(kLlama1).model), 6'738'415'616);
  EXPECT_EQ(parameter_count(parse(kTinyLlama).model), 1'100'048'384);
  const HfConfig hf = parse(kLlama32);
  EXPECT_EQ(parameter_count(hf.model), 1'235'814'400);
  EXPECT_EQ(hf.model, (ModelConfig{.kind = ModelKind::llama,
                                   .layers = 16,
                                   .hidden_size = 2048,
                                   .heads = 32,
                                   .kv_heads = 8,
                                   .head_width = 64,
                                   .ffn_hidden_size = 8192,
                                   .vocab_size = 128256,
                                   .max_length = 131072,
                                   .tied_head = TiedHead::yes,
                                   .norm_epsilon = 1e-5,
                                   .rope_theta = 500000,
                                   .rope_factor = 32,
                                   .rope_low_frequency = 1,
                                   .rope_high_frequency = 4,
                                   .rope_original_length = 8192}));
  EXPECT_EQ(hf.tokens["eos_token_id"], (json{128001, 128008, 128009}));
  EXPECT_EQ(parse(kLlama1).model.norm_epsilon, 1e-6);
  EXPECT_EQ(parse(kLlama1).model.max_length, 2048);
}

// transformers 5 puts everything rotary in one object.
TEST(HfConfig, ReadsRopeParameters) {
  json root = json::parse(kLlama32);
  root["rope_parameters"] = root["rope_scaling"];
  root["rope_parameters"]["rope_theta"] = root["rope_theta"];
  root.erase("rope_scaling");
  root.erase("rope_theta");
  root["dtype"] = "bfloat16";
  EXPECT_EQ(parse(root.dump()).model, parse(kLlama32).model);
  root["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 777.0}};
  const ModelConfig plain = parse(root.dump()).model;
  EXPECT_EQ(plain.rope_theta, 777);
  EXPECT_EQ(plain.rope_factor, 1);
  EXPECT_EQ(parse(with(kLlama32, {{"rope_scaling", {{"type", "default"}}}})).model.rope_factor, 1);
}

// A file may have both objects, for transformers 4 and 5: their meanings are compared, not their spellings.
TEST(HfConfig, RopeParametersTogetherWithRopeScaling) {
  const json scaling = json::parse(kLlama32)["rope_scaling"];
  json older = scaling, newer = scaling;
  older.erase("rope_type");
  older["type"] = "llama3";
  older["factor"] = 32;
  newer["rope_theta"] = 500000;
  const auto both = [](const json& a, const json& b) {
    return with(kLlama32, {{"rope_scaling", a}, {"rope_parameters", b}});
  };
  EXPECT_EQ(parse(both(older, newer)).model, parse(kLlama32).model);
  EXPECT_EQ(parse(both(newer, older)).model, parse(kLlama32).model);
  const json type = {{"type", "default"}},
             spelled_out = {{"rope_type", "default"}, {"factor", 1.0}, {"rope_theta", 1e4}};
  EXPECT_EQ(parse(with(kLlama2, {{"rope_scaling", type}, {"rope_parameters", spelled_out}})).model,
            parse(kLlama2).model);
  // What differs is refused.
  json other = scaling;
  other["factor"] = 16.0;
  EXPECT_THAT(error_of(both(scaling, other)), HasSubstr("keep the one that the model was trained with"));
  EXPECT_THAT(error_of(both(type, newer)),
              HasSubstr("rope_scaling {\"type\":\"default\"} contradicts rope_parameters {"));
  EXPECT_THAT(error_of(both(newer, type)), HasSubstr("contradicts rope_parameters {\"type\":\"default\"}"));
  other = scaling;
  other["rope_theta"] = 10000.0;
  EXPECT_THAT(error_of(both(other, newer)), HasSubstr("contradicts rope_parameters"));
}

TEST(HfConfig, TakesTheDefaultsOfWhatIsLeftOut) {
  EXPECT_EQ(parse(R"({"model_type": "gpt2"})").model, parse(kGpt2).model);
  const ModelConfig llama = parse(R"({"model_type": "llama"})").model;
  EXPECT_EQ(parameter_count(llama), 6'738'415'616);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_FALSE(llama.has_tied_head());
}

TEST(HfConfig, TakesEveryNameOfTheSameFunction) {
  for (const char* name : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh", "gelu_accurate"})
    EXPECT_EQ(parse(with(kGpt2, {{"activation_function", name}})).model, parse(kGpt2).model) << name;
  EXPECT_EQ(parse(with(kLlama2, {{"hidden_act", "swish"}})).model, parse(kLlama2).model);
  EXPECT_EQ(parse(with(kLlama2, {{"pretraining_tp", 2}})).model, parse(kLlama2).model);
}

struct Refused {
  const char* base;
  json fields;
  const char* message;
};

TEST(HfConfig, RefusesWhatItWouldComputeDifferently) {
  const std::vector<Refused> cases = {
      {kGpt2, {{"activation_function", "gelu"}}, "activation_function is \"gelu\", supported: gelu_new, gelu_py"},
      {kGpt2, {{"activation_function", 3}}, "activation_function is 3"},
      {kGpt2, {{"scale_attn_weights", false}}, "scale_attn_weights is false, supported: true"},
      {kGpt2, {{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx is true"},
      {kGpt2, {{"reorder_and_upcast_attn", true}}, "reorder_and_upcast_attn is true, supported: false"},
      {kGpt2, {{"add_cross_attention", true}}, "add_cross_attention is true"},
      {kGpt2, {{"architectures", {"GPT2ForSequenceClassification"}}}, "[\"GPT2LMHeadModel\"] or [\"GPT2Model\"]"},
      {kGpt2, {{"pruned_heads", {{"1", {0, 2}}}}}, "pruned_heads is {\"1\":[0,2]}"},
      {kGpt2, {{"quantization_config", {{"bits", 4}}}}, "quantization_config is {\"bits\":4}"},
      {kLlama2, {{"hidden_act", "gelu"}}, "hidden_act is \"gelu\", supported: silu, swish"},
      {kLlama2, {{"attention_bias", true}}, "attention_bias is true, supported: false"},
      {kLlama2, {{"mlp_bias", true}}, "mlp_bias is true"},
      {kLlama2, {{"sliding_window", 4096}}, "sliding_window is 4096"},
      {kLlama2, {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor is 0.5, supported: 1.0"},
      {kLlama2, {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, "rope_scaling.type is \"linear\""},
      {kLlama2,
       {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}},
       "rope_scaling.rope_type is \"dynamic\""},
      {kLlama2,
       {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}}}},
       "rope_parameters.rope_type is \"yarn\""},
      {kLlama2, {{"rope_scaling", {{"factor", 2.0}}}}, "has a factor but no rope_type"},
      {kLlama2,
       {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 2.0}}}},
       "rope_scaling.low_freq_factor is missing"},
      {kLlama2, {{"rope_scaling", {{"rope_type", "default"}, {"mscale", 2.0}}}}, "rope_scaling.mscale is 2.0"},
      {kLlama2,
       {{"rope_scaling", {{"rope_type", "default"}, {"future", 2.0}}}},
       "rope_scaling.future = 2.0 is not known"},
      {kLlama2, {{"rope_scaling", 3}}, "rope_scaling is 3, expected an object"},
      {kLlama2, {{"model_type", "mistral"}}, "model_type is \"mistral\", supported: \"gpt2\", \"llama\""},
      {kLlama2, {{"model_type", nullptr}}, "model_type is null"},
      {kLlama2, {{"logit_softcap", 30.0}}, "logit_softcap is 30.0, supported: null"},
      {kLlama2, {{"per_layer_config", {{"0", {{"head_dim", 8}}}}}}, "per_layer_config is"},
      {kLlama2, {{"rope_interleaved", true}}, "rope_interleaved is true"},
      {kGpt2, {{"hidden_size", 512}}, "hidden_size is 512, supported: 768, the value of n_embd"},
      {kLlama2, {{"num_hidden_layers", "32"}}, "num_hidden_layers is \"32\", supported: a whole number"},
      {kLlama2, {{"num_hidden_layers", 3.5}}, "num_hidden_layers is 3.5"},
      {kLlama2, {{"rms_norm_eps", "1e-5"}}, "rms_norm_eps is \"1e-5\", supported: a number"},
      {kLlama2, {{"tie_word_embeddings", 1}}, "tie_word_embeddings is 1, supported: true or false"},
      {kLlama2, {{"num_key_value_heads", 5}}, "5 does not divide model.heads 32"},
      {kLlama2, {{"vocab_size", 0}}, "the vocabulary of 0"},
      {kLlama2, {{"hidden_size", 4100}}, "hidden_size 4100 is not divisible by 32 heads"},
  };
  for (const Refused& c : cases)
    EXPECT_THAT(error_of(with(c.base, c.fields)), AllOf(HasSubstr("folder/config.json"), HasSubstr(c.message)))
        << c.fields;
  EXPECT_THAT(error_of("{"), HasSubstr("folder/config.json:1:2: not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected a JSON object, found []"));
}

TEST(HfConfig, PassesOverWhatSaysNothing) {
  const HfConfig hf = parse(with(kLlama2, {{"some_feature", nullptr},
                                           {"another", false},
                                           {"third", json::object()},
                                           {"_private", 3},
                                           {"boi_token_id", 7},
                                           {"sliding_window", nullptr},
                                           {"quantization_config", json::object()}}));
  EXPECT_EQ(hf.model, parse(kLlama2).model);
  ASSERT_EQ(hf.warnings.size(), 2U);
  EXPECT_THAT(hf.warnings[0], HasSubstr("folder/config.json: the unknown field _private = 3 is ignored"));
  EXPECT_THAT(hf.warnings[1], HasSubstr("boi_token_id"));
}

// As transformers does, by attribute_map.
TEST(HfConfig, TakesTheOtherNamesOfSizes) {
  const char* text = R"({"model_type": "gpt2", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
                         "max_position_embeddings": 33})";
  const ModelConfig m = parse(text).model;
  EXPECT_EQ(m.hidden_size, 48);
  EXPECT_EQ(m.layers, 3);
  EXPECT_EQ(m.heads, 4);
  EXPECT_EQ(m.max_length, 33);
  EXPECT_EQ(m.ffn_hidden_size, 192);
}

TEST(HfConfig, WritesWhatItReads) {
  for (const char* text : {kGpt2, kGpt2Xl, kLlama1, kLlama32, kTinyLlama}) {
    const HfConfig first = parse(text);
    const HfConfig second = parse(hf_config_text(first.model, DType::bf16, first.tokens));
    ModelConfig expected = first.model;
    if (expected.kind == ModelKind::llama) expected.head_width = expected.head_size();  // written out
    EXPECT_EQ(second.model, expected) << text;
    EXPECT_EQ(second.tokens, first.tokens);
    EXPECT_TRUE(second.warnings.empty());
  }
  const ModelConfig odd{
      .hidden_size = 12, .heads = 3, .ffn_hidden_size = 31, .vocab_size = 5, .tied_head = TiedHead::no};
  const json written = json::parse(hf_config_text(odd, DType::fp16));
  EXPECT_EQ(written["n_inner"], 31);
  EXPECT_EQ(written["n_ctx"], written["n_positions"]);  // converters to GGUF ask for it
  EXPECT_EQ(written["tie_word_embeddings"], false);
  EXPECT_EQ(written["torch_dtype"], "float16");
  EXPECT_THAT(error_message([&] { (void)hf_config_text(odd, DType::int32); }), HasSubstr("use fp32, bf16 or fp16"));
}

}  // namespace
}  // namespace partita::internal
