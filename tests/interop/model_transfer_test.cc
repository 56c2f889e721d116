#include "partita/interop/model_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/run_state.h"
#include "partita/checkpoint/save_weights.h"
#include "partita/interop/hf_config.h"
#include "partita/interop/hf_export.h"
#include "partita/interop/hf_folder.h"
#include "partita/interop/model_source.h"
#include "partita/interop/peft_names.h"
#include "partita/tokenizer/tokenizer.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kGolden = fs::path(PARTITA_SOURCE_DIR) / "tests/golden/hf";

void expect_same_tensors(const fs::path& a, const fs::path& b, const HfFileNames& names = kHfModelFiles) {
  const HfFolder left(a, names), right(b, names);
  ASSERT_EQ(left.tensors().size(), right.tensors().size());
  for (const auto& [name, tensor] : left.tensors()) {
    EXPECT_EQ(tensor.type, right.at(name).type) << name;
    EXPECT_EQ(tensor.shape, right.at(name).shape) << name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, right.at(name).bytes)) << name;
  }
}

TEST(ModelTransfer, ImportThenExportGivesEveryByteBack) {
  for (const char* name : {"gpt2_tied", "gpt2_untied", "llama_gqa_tied", "llama_gqa_tied_bf16", "llama_rope_scaled"}) {
    const TemporaryDirectory folder;
    const fs::path checkpoint = import_model(kGolden / name, folder / "run");
    EXPECT_EQ(checkpoint, folder / "run/checkpoints/step-00000000");
    EXPECT_TRUE(verify_checkpoint(checkpoint).empty()) << name;
    export_model(folder / "run", folder / "out", {});
    expect_same_tensors(kGolden / name, folder / "out");
    EXPECT_EQ(open_model(folder / "out").model, open_model(kGolden / name).model) << name;
    // The same with every default written out.
    EXPECT_EQ(hf_config_text(open_model(folder / "run").model, DType::fp32),
              hf_config_text(open_model(kGolden / name).model, DType::fp32));
  }
}

TEST(ModelTransfer, OtherWrappingsAreTheSameModel) {
  const TemporaryDirectory folder;
  import_model(kGolden / "llama_gqa_tied_bin_sharded", folder / "run");
  export_model(folder / "run", folder / "out", {.shard_bytes = 3000});
  EXPECT_TRUE(fs::exists(folder / "out/model.safetensors.index.json"));
  expect_same_tensors(kGolden / "llama_gqa_tied", folder / "out");
}

// An element type is what was imported unless one is asked for.
TEST(ModelTransfer, KeepsTheElementType) {
  const TemporaryDirectory folder;
  import_model(kGolden / "llama_gqa_tied_bf16", folder / "run");
  export_model(folder / "run", folder / "same", {});
  export_model(folder / "run", folder / "wide", {.dtype = DType::fp32});
  EXPECT_EQ(HfFolder(folder / "same").at("model.norm.weight").type, ElementType::bf16);
  EXPECT_EQ(HfFolder(folder / "wide").at("model.norm.weight").type, ElementType::f32);
  EXPECT_EQ(json::parse(read_file(folder / "wide/config.json"))["torch_dtype"], "float32");
}

// The tokenizer and the ids of config.json go through the run's folder.
TEST(ModelTransfer, HandsOnWhatLiesBeside) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "in");
  for (const char* name : {"model.safetensors", "config.json"})
    write_file(folder / "in" / name, read_file(kGolden / "gpt2_tied" / name));
  json config = json::parse(read_file(folder / "in/config.json"));
  config["bos_token_id"] = 3;
  config["eos_token_id"] = {4, 5};
  write_file(folder / "in/config.json", config.dump());
  write_file(folder / "in/tokenizer.json", "some tokenizer");
  write_file(folder / "in/README.md", "not ours to copy");
  import_model(folder / "in", folder / "run");
  EXPECT_EQ(read_file(folder / "run/tokenizer.json"), "some tokenizer");
  EXPECT_FALSE(fs::exists(folder / "run/README.md"));
  EXPECT_EQ(open_model(folder / "run").tokenizer.filename(), "tokenizer.json");
  export_model(folder / "run", folder / "out", {});
  EXPECT_EQ(read_file(folder / "out/tokenizer.json"), "some tokenizer");
  const json out = json::parse(read_file(folder / "out/config.json"));
  EXPECT_EQ(out["bos_token_id"], 3);
  EXPECT_EQ(out["eos_token_id"], (json{4, 5}));
}

TEST(ModelTransfer, WritesAdaptersAloneOrMerged) {
  const TemporaryDirectory folder;
  export_model(kGolden / "gpt2_tied_lora", folder / "adapter", {});
  expect_same_tensors(kGolden / "gpt2_tied_lora", folder / "adapter", kPeftFiles);
  export_model(kGolden / "gpt2_tied_lora", folder / "merged", {.merge = true});
  const HfFolder merged(folder / "merged"), base(kGolden / "gpt2_tied");
  EXPECT_FALSE(std::ranges::equal(merged.at("transformer.h.0.attn.c_attn.weight").bytes,
                                  base.at("transformer.h.0.attn.c_attn.weight").bytes));
  EXPECT_TRUE(std::ranges::equal(merged.at("transformer.wte.weight").bytes, base.at("transformer.wte.weight").bytes));
  // Whole as it is, it is a model without adapters.
  EXPECT_EQ(open_model(folder / "merged").lora.rank, 0);
}

// A run with adapters keeps these alone: its base is where training had it, or where the user says.
TEST(ModelSource, OpensARunOfAdapters) {
  const TemporaryDirectory folder;
  const ModelSource golden = open_model(kGolden / "gpt2_tied_lora");
  EXPECT_EQ(golden.lora.rank, 4);
  EXPECT_EQ(golden.base_path, kGolden / "gpt2_tied");
  std::vector<ParameterSpec> adapters;
  for (HfParameter& p : peft_parameters(golden.model, golden.lora))
    adapters.push_back({.name = p.name, .shape = p.shape, .adapter = true});
  RunState state;
  state.model = golden.model;
  state.lora = golden.lora;
  state.base = folder / "base";
  state.step = 7;
  fs::create_directories(folder / "run/checkpoints/step-00000007");
  write_weights(folder / "run/checkpoints/step-00000007", 7, adapters, *golden.adapters, to_json(state));
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "run"); }),
              AllOf(HasSubstr((folder / "base").string()), HasSubstr("--base")));
  const ModelSource chosen = open_model(folder / "run", kGolden / "gpt2_tied");
  EXPECT_EQ(chosen.base_path, kGolden / "gpt2_tied");
  fs::copy(kGolden / "gpt2_tied", folder / "base");
  const ModelSource source = open_model(folder / "run");
  EXPECT_EQ(source.lora, golden.lora);
  std::vector<float> ours(static_cast<size_t>(adapters[1].count())), theirs(ours.size());
  source.weights->read(adapters[1], whole_box(adapters[1].shape), ours);
  golden.weights->read(adapters[1], whole_box(adapters[1].shape), theirs);
  EXPECT_EQ(ours, theirs);
  export_model(folder / "run", folder / "out", {});
  expect_same_tensors(kGolden / "gpt2_tied_lora", folder / "out", kPeftFiles);
  // Another model below is no base of it.
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "run", kGolden / "llama_mha"); }),
              HasSubstr("another model"));
}

TEST(ModelSource, NamesWhatItLookedFor) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "none"); }),
              HasSubstr("no such file or folder, expected a Hugging Face or PEFT folder, the folder of a run"));
  EXPECT_THAT(error_message([&] { (void)open_model("nobody/no-such-model"); }),
              HasSubstr("hf download nobody/no-such-model --local-dir"));
  EXPECT_THAT(error_message([&] { (void)open_model(folder.path()); }),
              AllOf(HasSubstr("config.json"), HasSubstr("adapter_config.json"), HasSubstr("manifest.json")));
  EXPECT_THAT(error_message([&] { (void)open_model(kGolden / "gpt2_tied", folder.path()); }),
              HasSubstr("--base (model.base) applies only to adapters, and"));
  // An adapter whose base is a name on a hub.
  fs::copy(kGolden / "gpt2_tied_lora", folder / "adapter");
  json config = json::parse(read_file(folder / "adapter/adapter_config.json"));
  config["base_model_name_or_path"] = "openai-community/gpt2";
  write_file(folder / "adapter/adapter_config.json", config.dump());
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "adapter"); }),
              AllOf(HasSubstr("adapts openai-community/gpt2, which is not a folder here"), HasSubstr("hf download")));
  EXPECT_EQ(open_model(folder / "adapter", kGolden / "gpt2_tied").lora.rank, 4);
}

// bf16 matrices with fp32 norms: through import and export each tensor has its type and bytes; also a merge of adapters
// that were trained on such a model, and a model whose tied table is stored under the head's name.
TEST(ModelTransfer, KeepsTheTypeOfEachTensor) {
  const TemporaryDirectory folder;
  StoredTypes types{.usual = ElementType::bf16};
  for (const char* name : {"model.norm.weight", "model.layers.0.input_layernorm.weight"})
    types.others[name] = ElementType::f32;
  const ModelSource golden = open_model(kGolden / "llama_gqa_tied_bf16");
  export_hf_model(folder / "mixed", *golden.weights, {.model = golden.model, .types = types});
  import_model(folder / "mixed", folder / "run");
  EXPECT_EQ(open_model(folder / "run").stored_as, types);
  export_model(folder / "run", folder / "out", {.shard_bytes = 3000});
  expect_same_tensors(folder / "mixed", folder / "out");
  export_model(folder / "mixed", folder / "again", {});
  expect_same_tensors(folder / "mixed", folder / "again");
  export_model(folder / "run", folder / "half", {.dtype = DType::fp16});
  EXPECT_EQ(HfFolder(folder / "half").at("model.norm.weight").type, ElementType::f16);
  EXPECT_EQ(HfFolder(folder / "half").at("model.embed_tokens.weight").type, ElementType::f16);

  // The same table under the other name.
  const SafetensorsFile whole(folder / "mixed/model.safetensors");
  std::vector<SafetensorsEntry> entries(whole.entries().begin(), whole.entries().end());
  for (SafetensorsEntry& e : entries)
    if (e.name == "model.embed_tokens.weight") e.name = "lm_head.weight";
  fs::create_directory(folder / "head");
  write_file(folder / "head/config.json", read_file(folder / "mixed/config.json"));
  SafetensorsWriter head(folder / "head/model.safetensors", entries);
  for (const SafetensorsEntry& e : whole.entries()) head.write(whole.bytes(e));
  head.commit();
  import_model(folder / "head", folder / "head_run");
  export_model(folder / "head_run", folder / "head_out", {});
  expect_same_tensors(folder / "mixed", folder / "head_out");  // as transformers writes it
}

TEST(ModelTransfer, AdaptersKeepTheirType) {
  const TemporaryDirectory folder;
  export_model(kGolden / "gpt2_tied_lora", folder / "half", {.dtype = DType::bf16});
  write_file(folder / "half/adapter_config.json", read_file(kGolden / "gpt2_tied_lora/adapter_config.json"));
  fs::copy(kGolden / "gpt2_tied", folder / "gpt2_tied");
  export_model(folder / "half", folder / "out", {.base = kGolden / "gpt2_tied"});
  expect_same_tensors(folder / "half", folder / "out", kPeftFiles);
}

// generation_config.json goes through a run and out again, with the ids of config.json where it has none itself.
TEST(ModelTransfer, HandsOnHowToGenerate) {
  const TemporaryDirectory folder;
  fs::create_directories(folder / "in/additional_chat_templates");
  write_file(folder / "in/model.safetensors", read_file(kGolden / "gpt2_tied/model.safetensors"));
  json config = json::parse(read_file(kGolden / "gpt2_tied/config.json"));
  config["eos_token_id"] = 0;
  config["bos_token_id"] = 1;
  write_file(folder / "in/config.json", config.dump());
  write_file(folder / "in/generation_config.json", R"({"eos_token_id": [0, 28], "temperature": 0.6, "num_beams": 4})");
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "chat_template.jinja", "additional_chat_templates/tools.jinja"})
    write_file(folder / "in" / name, name);
  const ModelSource source = open_model(folder / "in");
  EXPECT_EQ(source.generation.eos_token_ids, (std::vector<int64_t>{0, 28}));
  EXPECT_THAT(source.generation.warnings.at(0), HasSubstr("num_beams = 4"));
  import_model(folder / "in", folder / "run");
  EXPECT_EQ(open_model(folder / "run").generation.eos_token_ids, source.generation.eos_token_ids);
  export_model(folder / "run", folder / "out", {});
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "chat_template.jinja", "additional_chat_templates/tools.jinja"})
    EXPECT_EQ(read_file(folder / "out" / name), name);
  EXPECT_EQ(json::parse(read_file(folder / "out/generation_config.json")),
            (json{{"eos_token_id", {0, 28}}, {"bos_token_id", 1}, {"temperature", 0.6}, {"num_beams", 4}}));
}

// What was trained here has no such files: transformers needs to be told of class and end of text.
TEST(ModelTransfer, WritesTheLeastThatTransformersNeeds) {
  const TemporaryDirectory folder;
  import_model(kGolden / "llama_rope_scaled", folder / "run");
  fs::remove(folder / "run/generation_config.json");
  fs::copy(fs::path(PARTITA_SOURCE_DIR) / "tests/golden/tokenizer.json", folder / "run/tokenizer.json");
  const TokenId end = load_tokenizer(folder / "run/tokenizer.json")->end_of_document().value();
  export_model(folder / "run", folder / "out", {});
  const json tokenizer = json::parse(read_file(folder / "out/tokenizer_config.json"));
  EXPECT_EQ(tokenizer["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(tokenizer["eos_token"], "<|endoftext|>");
  EXPECT_EQ(tokenizer["model_max_length"], open_model(folder / "run").model.max_length);
  EXPECT_FALSE(tokenizer.contains("bos_token"));
  EXPECT_EQ(json::parse(read_file(folder / "out/generation_config.json")), (json{{"eos_token_id", end}}));
  EXPECT_EQ(json::parse(read_file(folder / "out/config.json"))["eos_token_id"], end);
  // A folder of Hugging Face's is not added to.
  export_model(kGolden / "llama_mha", folder / "same", {});
  EXPECT_FALSE(fs::exists(folder / "same/tokenizer_config.json"));
}

TEST(ModelSource, RefusesAdaptersOfAnotherBase) {
  const TemporaryDirectory folder;
  fs::copy(kGolden / "gpt2_tied_lora", folder / "adapter");
  json config = json::parse(read_file(folder / "adapter/adapter_config.json"));
  config["r"] = 2;
  write_file(folder / "adapter/adapter_config.json", config.dump());
  EXPECT_THAT(error_message([&] {
                export_model(folder / "adapter", folder / "x", {.merge = true, .base = kGolden / "gpt2_tied"});
              }),
              AllOf(HasSubstr("lora_A.weight [4, 18] instead of [2, 18]"), HasSubstr("trained on a base of another")));
}

// Rotary positions have no weights: a model may be lengthened. Learned ones may not.
TEST(ModelSource, RotaryModelsMayBeLengthened) {
  const fs::path llama = kGolden / "llama_mha", gpt2 = kGolden / "gpt2_tied";
  ModelConfig longer = open_model(llama).model;
  longer.max_length *= 4;
  EXPECT_NO_THROW(check_same_function(open_model(llama).model, longer, llama));
  longer = open_model(gpt2).model;
  longer.max_length *= 4;
  EXPECT_THAT(error_message([&] { check_same_function(open_model(gpt2).model, longer, gpt2); }),
              HasSubstr("model.max_length"));
}

TEST(ModelTransfer, OverwritesNothingAndSaysWhy) {
  const TemporaryDirectory folder;
  import_model(kGolden / "gpt2_tied", folder / "run");
  const auto message = [](const auto& action) { return error_message(action); };
  EXPECT_THAT(message([&] { import_model(kGolden / "gpt2_tied", folder / "run"); }), HasSubstr("already exists"));
  EXPECT_THAT(message([&] { export_model(folder / "run", folder / "run", {}); }), HasSubstr("already exists"));
  EXPECT_THAT(message([&] { export_model(folder / "run", folder / "x", {.merge = true}); }),
              HasSubstr("no adapters to merge"));
  EXPECT_THAT(message([&] { import_model(folder / "run", folder / "x"); }),
              HasSubstr("run is a run or checkpoint of Partita, which every command takes as it is"));
  fs::create_directory(folder / "empty");
  EXPECT_THAT(message([&] { import_model(folder / "empty", folder / "x"); }),
              HasSubstr("empty holds no model: expected"));
  EXPECT_THAT(message([&] { import_model(kGolden / "gpt2_tied_lora", folder / "x"); }),
              HasSubstr("gpt2_tied_lora holds adapters: "));
  EXPECT_THAT(message([&] { export_model(folder / "run", folder / "x", {.dtype = DType::int32}); }), HasSubstr("I32"));
  // A config.json that is not that of the weights.
  fs::create_directory(folder / "in");
  write_file(folder / "in/model.safetensors", read_file(kGolden / "gpt2_tied/model.safetensors"));
  json config = json::parse(read_file(kGolden / "gpt2_tied/config.json"));
  config["n_layer"] = 3;
  config["n_positions"] = 14;
  write_file(folder / "in/config.json", config.dump());
  EXPECT_THAT(message([&] { import_model(folder / "in", folder / "x"); }),
              AllOf(HasSubstr("missing from it: transformer.h.2.ln_1.weight"),
                    HasSubstr("transformer.wpe.weight [13, 18] instead of [14, 18]")));
  EXPECT_FALSE(fs::exists(folder / "x"));
  EXPECT_FALSE(fs::exists(folder / "x.partial"));
}

}  // namespace
}  // namespace partita::internal
