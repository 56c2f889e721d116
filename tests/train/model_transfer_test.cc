#include "partita/train/model_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/hf_folder.h"
#include "partita/checkpoint/save_weights.h"
#include "partita/models/hf_config.h"
#include "partita/models/peft_names.h"
#include "partita/train/model_source.h"
#include "partita/train/run_state.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita {
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
  source.weights->read(adapters[1], 0, ours);
  golden.weights->read(adapters[1], 0, theirs);
  EXPECT_EQ(ours, theirs);
  export_model(folder / "run", folder / "out", {});
  expect_same_tensors(kGolden / "gpt2_tied_lora", folder / "out", kPeftFiles);
  // Another model below is no base of it.
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "run", kGolden / "llama_mha"); }),
              HasSubstr("another model"));
}

TEST(ModelSource, NamesWhatItLookedFor) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "none"); }), HasSubstr("is not there"));
  EXPECT_THAT(error_message([&] { (void)open_model(folder.path()); }),
              AllOf(HasSubstr("config.json"), HasSubstr("adapter_config.json"), HasSubstr("manifest.json")));
  EXPECT_THAT(error_message([&] { (void)open_model(kGolden / "gpt2_tied", folder.path()); }),
              HasSubstr("has no adapters: a base"));
  // An adapter whose base is a name on a hub.
  fs::copy(kGolden / "gpt2_tied_lora", folder / "adapter");
  json config = json::parse(read_file(folder / "adapter/adapter_config.json"));
  config["base_model_name_or_path"] = "openai-community/gpt2";
  write_file(folder / "adapter/adapter_config.json", config.dump());
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "adapter"); }),
              HasSubstr("adapts openai-community/gpt2, which is no folder here"));
  EXPECT_EQ(open_model(folder / "adapter", kGolden / "gpt2_tied").lora.rank, 4);
}

TEST(ModelTransfer, OverwritesNothingAndSaysWhy) {
  const TemporaryDirectory folder;
  import_model(kGolden / "gpt2_tied", folder / "run");
  const auto message = [](const auto& action) { return error_message(action); };
  EXPECT_THAT(message([&] { import_model(kGolden / "gpt2_tied", folder / "run"); }), HasSubstr("is there already"));
  EXPECT_THAT(message([&] { export_model(folder / "run", folder / "run", {}); }), HasSubstr("is there already"));
  EXPECT_THAT(message([&] { export_model(folder / "run", folder / "x", {.merge = true}); }),
              HasSubstr("no adapters to merge"));
  EXPECT_THAT(message([&] { import_model(folder / "run", folder / "x"); }), HasSubstr("it holds no config.json"));
  EXPECT_THAT(message([&] { import_model(kGolden / "gpt2_tied_lora", folder / "x"); }), HasSubstr("no config.json"));
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
}  // namespace partita
