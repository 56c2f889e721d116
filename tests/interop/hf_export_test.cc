// gcc 12 falsely reports the map of a temporary StoredTypes as uninitialized if its construction throws.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "partita/interop/hf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <set>

#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/save_weights.h"
#include "partita/checkpoint/stored_weights.h"
#include "partita/interop/adapted_weights.h"
#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using nlohmann::json;

void expect_same_tensors(const fs::path& a, const fs::path& b, const HfFileNames& names = kHfModelFiles) {
  const HfFolder left(a, names), right(b, names);
  ASSERT_EQ(left.tensors().size(), right.tensors().size());
  for (const auto& [name, tensor] : left.tensors()) {
    const MappedTensor* other = right.find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(tensor.type, other->type) << name;
    EXPECT_EQ(tensor.shape, other->shape) << name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, other->bytes)) << name;
  }
}

// What transformers wrote goes through a checkpoint of ours and comes out with the same names and bytes.
TEST(HfExport, GivesBackEveryByteOfAnImport) {
  for (const std::string& name : golden_models()) {
    const TemporaryDirectory folder;
    const OpenModel m = open_folder(golden_folder(name));
    fs::create_directory(folder / "checkpoint");
    write_weights(folder / "checkpoint", 0, m.parameters, *m.weights, {{"step", 0}});
    const StoredWeights stored(folder / "checkpoint");
    stored.check(m.parameters);
    export_hf_model(folder / "out", stored, {.model = m.model, .types = m.weights->stored_types()});
    expect_same_tensors(golden_folder(name), folder / "out");
    EXPECT_EQ(open_folder(folder / "out").model, m.model) << name;
    EXPECT_EQ(SafetensorsFile(folder / "out/model.safetensors").metadata().at("format"), "pt");
  }
}

TEST(HfExport, CutsALargeModelIntoShards) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("llama_mha"));
  export_hf_model(folder / "out", *m.weights, {.model = m.model, .shard_bytes = 8000});
  expect_same_tensors(golden_folder("llama_mha"), folder / "out");
  const json index = json::parse(read_file(folder / "out/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 4 * parameter_count(m.model));
  std::set<std::string> files;
  for (const auto& item : index["weight_map"].items()) files.insert(item.value());
  EXPECT_GT(files.size(), 2U);
  for (const std::string& file : files) {
    int64_t bytes = 0;
    const SafetensorsFile shard(folder / "out" / file);
    for (const SafetensorsEntry& e : shard.entries()) bytes += e.end - e.begin;
    EXPECT_TRUE(bytes <= 8000 || shard.entries().size() == 1) << file << " " << bytes;
  }
  EXPECT_FALSE(fs::exists(folder / "out/model.safetensors"));
}

TEST(HfExport, RoundsToTheTypeThatIsAskedFor) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("gpt2_untied"));
  export_hf_model(folder / "half", *m.weights,
                  {.model = m.model, .types = {.usual = ElementType::f16}, .tokens = {{"eos_token_id", 9}}});
  const OpenModel half = open_folder(folder / "half");
  for (const ParameterSpec& p : m.parameters) {
    const auto exact = read_all(*m.weights, p), rounded = read_all(*half.weights, p);
    for (size_t i = 0; i < exact.size(); ++i)
      ASSERT_NEAR(rounded[i], exact[i], std::max(std::abs(exact[i]) * 0x1p-11F, 0x1p-25F)) << p.name;
  }
  const json config = json::parse(read_file(folder / "half/config.json"));
  EXPECT_EQ(config["torch_dtype"], "float16");
  EXPECT_EQ(config["eos_token_id"], 9);
  EXPECT_THAT(error_message([&] {
                export_hf_model(folder / "x", *m.weights, {.model = m.model, .types = {.usual = ElementType::i8}});
              }),
              HasSubstr("weights are not exported as I8"));
  EXPECT_FALSE(fs::exists(folder / "x"));
  EXPECT_FALSE(fs::exists(folder / "x.partial"));
}

TEST(HfExport, OverwritesNothing) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("llama_mha"));
  fs::create_directory(folder / "empty");
  fs::create_directory(folder / "full");
  write_file(folder / "full/a", "a");
  write_file(folder / "file", "a");
  EXPECT_EQ(error_message([&] { export_hf_model(folder / "empty", *m.weights, {.model = m.model}); }), "no error");
  EXPECT_TRUE(fs::exists(folder / "empty/model.safetensors"));
  for (const auto& [name, message] :
       {std::pair("full", "already exists and is not empty"), std::pair("file", "is a file: give the name of a folder"),
        std::pair("empty", "already exists and is not empty")})
    EXPECT_THAT(error_message([&] { export_hf_model(folder / name, *m.weights, {.model = m.model}); }),
                HasSubstr(message));
  ModelConfig other = m.model;
  other.layers = 3;
  EXPECT_THAT(error_message([&] { export_hf_model(folder / "other", *m.weights, {.model = other}); }),
              HasSubstr("missing from it: layers.2.attention.norm.weight"));
  EXPECT_FALSE(fs::exists(folder / "other"));
}

struct Adapted {
  OpenModel base;
  LoraConfig lora;
  std::shared_ptr<const HfWeights> adapters;
};

Adapted open_adapter(const std::string& base, const fs::path& folder) {
  Adapted a{open_folder(golden_folder(base)), {}, {}};
  const fs::path path = folder / "adapter_config.json";
  a.lora = parse_peft_config(read_file(path), path, a.base.model.kind).lora;
  a.adapters = std::make_shared<const HfWeights>(HfFolder(folder, kPeftFiles), peft_naming(a.base.model, a.lora));
  return a;
}

TEST(PeftExport, GivesBackWhatPeftWrote) {
  for (const char* base : {"gpt2_tied", "llama_gqa_tied"}) {
    const fs::path golden = golden_folder(std::string(base) + "_lora");
    const TemporaryDirectory folder;
    const Adapted a = open_adapter(base, golden);
    export_peft_adapter(folder / "out", *a.adapters, {.model = a.base.model}, a.lora, base);
    expect_same_tensors(golden, folder / "out", kPeftFiles);
    const json ours = json::parse(read_file(folder / "out/adapter_config.json"));
    const json theirs = json::parse(read_file(golden / "adapter_config.json"));
    for (const char* key : {"r", "lora_alpha", "lora_dropout", "bias", "peft_type", "task_type", "fan_in_fan_out",
                            "base_model_name_or_path"})
      EXPECT_EQ(ours[key], theirs[key]) << key;
    EXPECT_THAT(ours["target_modules"].get<std::vector<std::string>>(),
                testing::UnorderedElementsAreArray(theirs["target_modules"].get<std::vector<std::string>>()));
    EXPECT_EQ(open_adapter(base, folder / "out").lora.rank, a.lora.rank);
  }
}

// merged/NAME of the golden files: PEFT's merge_and_unload in float32.
TEST(MergedWeights, EqualThoseOfPeft) {
  for (const std::string base : {"gpt2_tied", "llama_gqa_tied"}) {
    const Adapted a = open_adapter(base, golden_folder(base + "_lora"));
    const MergedWeights merged(a.base.weights, a.adapters, a.base.model, a.lora);
    merged.check(a.base.parameters);
    const TemporaryDirectory folder;
    export_hf_model(folder / "out", merged, {.model = a.base.model});
    const HfFolder out(folder / "out"), before(golden_folder(base));
    const SafetensorsFile golden(golden_folder(base + "_lora.safetensors"));
    int changed = 0;
    for (const auto& [name, tensor] : out.tensors()) {
      const SafetensorsEntry& theirs = golden.at("merged/" + name);
      ASSERT_EQ(theirs.shape, tensor.shape) << name;
      std::vector<float> ours(tensor.bytes.size() / 4), expected(ours.size());
      std::memcpy(ours.data(), tensor.bytes.data(), tensor.bytes.size());
      std::memcpy(expected.data(), golden.bytes(theirs).data(), tensor.bytes.size());
      for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], expected[i], 1e-6) << name << " " << i;
      changed += !std::ranges::equal(tensor.bytes, before.at(name).bytes);
    }
    EXPECT_GT(changed, 5) << base;
  }
}

TEST(MergedWeights, ReadAnyBox) {
  std::mt19937 random(4);
  const Adapted a = open_adapter("llama_gqa_tied", golden_folder("llama_gqa_tied_lora"));
  const MergedWeights merged(a.base.weights, a.adapters, a.base.model, a.lora);
  for (const ParameterSpec& p : a.base.parameters) {
    for (int round = 0; round < 60; ++round) expect_box_of_whole(merged, p, random_box(random, whole_box(p.shape)));
  }
}

TEST(AdaptedWeights, AreBothSourcesInOne) {
  const Adapted a = open_adapter("gpt2_tied", golden_folder("gpt2_tied_lora"));
  const AdaptedWeights both(a.base.weights, a.adapters);
  std::vector<ParameterSpec> all = a.base.parameters;
  for (ParameterSpec p : parameter_specs(peft_parameters(a.base.model, a.lora))) {
    p.adapter = true;
    all.push_back(p);
  }
  both.check(all);
  EXPECT_EQ(read_all(both, all[0]), read_all(*a.base.weights, all[0]));
  EXPECT_EQ(read_all(both, all.back()), read_all(*a.adapters, all.back()));
  all.pop_back();
  EXPECT_THAT(error_message([&] { both.check(all); }), HasSubstr("not in this model: base_model.model.transformer"));
}

TEST(StoredWeights, ListDifferencesAndDamage) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("gpt2_tied"));
  write_weights(folder.path(), 3, m.parameters, *m.weights, json::object());
  std::vector<ParameterSpec> wanted = m.parameters;
  wanted[0].shape[0] += 1;
  wanted[1].name = "embedding.other";
  {
    const StoredWeights stored(folder.path());
    EXPECT_EQ(stored.manifest().step, 3);
    EXPECT_THAT(error_message([&] { stored.check(wanted); }),
                testing::AllOf(HasSubstr("missing from it: embedding.other"),
                               HasSubstr("not in this model: embedding.position.weight"),
                               HasSubstr("of another shape: embedding.token.weight [61, 18] instead of [62, 18]")));
    for (const ParameterSpec& p : m.parameters) EXPECT_EQ(read_all(stored, p), read_all(*m.weights, p)) << p.name;
  }
  const fs::path file = folder / "rank-00000.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  const StoredWeights stored(folder.path());
  EXPECT_EQ(read_all(stored, m.parameters[0]), read_all(*m.weights, m.parameters[0]));
  EXPECT_THAT(error_message([&] { (void)read_all(stored, m.parameters.back()); }),
              HasSubstr("the checksum of 'model/final_norm.bias' does not match"));
}

// bf16 matrices with fp32 norms, whole and in shards: each tensor comes out in its own type, with the same bytes.
TEST(HfExport, KeepsTheTypeOfEachTensor) {
  const OpenModel m = open_folder(golden_folder("llama_gqa_tied_bf16"));
  StoredTypes types = m.weights->stored_types();
  ASSERT_EQ(types, StoredTypes{.usual = ElementType::bf16});
  for (const HfParameter& p : hf_parameters(m.model))
    if (p.name.ends_with("norm.weight")) types.others[p.pieces[0].name] = ElementType::f32;
  types.others["model.layers.0.self_attn.k_proj.weight"] = ElementType::f16;  // one piece of three
  const TemporaryDirectory folder;
  export_hf_model(folder / "mixed", *m.weights, {.model = m.model, .types = types});
  const OpenModel mixed = open_folder(folder / "mixed");
  EXPECT_EQ(mixed.weights->stored_types(), types);
  EXPECT_EQ(json::parse(read_file(folder / "mixed/config.json"))["torch_dtype"], "bfloat16");
  fs::create_directory(folder / "checkpoint");
  write_weights(folder / "checkpoint", 0, m.parameters, *mixed.weights, {{"step", 0}});
  for (const int64_t shard : {int64_t{INT64_MAX}, int64_t{2000}}) {
    const fs::path out = folder / std::to_string(shard);
    export_hf_model(out, StoredWeights(folder / "checkpoint"),
                    {.model = m.model, .types = mixed.weights->stored_types(), .shard_bytes = shard});
    expect_same_tensors(folder / "mixed", out);
  }
  const json index = json::parse(read_file(folder / "2000/model.safetensors.index.json"));
  int64_t bytes = 0;
  for (const auto& [name, tensor] : mixed.weights->folder().tensors()) bytes += std::ssize(tensor.bytes);
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
}

TEST(HfExport, RefusesNumbersThatTheTypeCannotHold) {
  class Large final : public WeightSource {
    void check(std::span<const ParameterSpec>) const override {}
    void read(const ParameterSpec& p, const Box&, std::span<float> out) const override {
      std::ranges::fill(out, p.name == "final_norm.bias" ? 70000.F : 1.F);
    }
  };
  const OpenModel m = open_folder(golden_folder("gpt2_tied"));
  const TemporaryDirectory folder;
  EXPECT_THAT(
      error_message(
          [&] { export_hf_model(folder / "x", Large(), {.model = m.model, .types = {.usual = ElementType::f16}}); }),
      testing::AllOf(HasSubstr("'transformer.ln_f.bias' holds 70000, which fp16 cannot represent"), HasSubstr("bf16")));
  EXPECT_FALSE(fs::exists(folder / "x"));
  export_hf_model(folder / "bf16", Large(), {.model = m.model, .types = {.usual = ElementType::bf16}});
}

}  // namespace
}  // namespace partita::internal
