#include "partita/interop/hf_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "partita/checkpoint/elements.h"
#include "partita/interop/zip_archive.h"
#include "tests/interop/golden_folders.h"
#include "tests/interop/zip_writer.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const ModelConfig kGpt2{
    .layers = 2, .hidden_size = 6, .heads = 2, .ffn_hidden_size = 70, .vocab_size = 7, .max_length = 5};
const ModelConfig kLlama{.kind = ModelKind::llama,
                         .layers = 1,
                         .hidden_size = 5,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_width = 2,
                         .ffn_hidden_size = 9,
                         .vocab_size = 7,
                         .tied_head = TiedHead::yes};

// The value of an element of a tensor of theirs: small whole numbers, which every element type holds.
float value_of(const std::string& name, int64_t index) {
  return static_cast<float>((std::hash<std::string>()(name) + static_cast<uint64_t>(index) * 7) % 201) - 100;
}

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  ElementType type = ElementType::f32;
};

std::vector<Tensor> tensors_of(const ModelConfig& model, ElementType type = ElementType::f32) {
  std::vector<Tensor> tensors;
  for (const HfParameter& p : hf_parameters(model))
    for (const HfPiece& piece : p.pieces) tensors.push_back({piece.name, piece.shape, type});
  return tensors;
}

void write_folder(const fs::path& folder, const std::vector<Tensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const Tensor& t : tensors) entries.push_back({t.name, t.type, t.shape});
  SafetensorsWriter out(folder / "model.safetensors", entries);
  for (const Tensor& t : tensors) {
    std::vector<float> values(static_cast<size_t>(ParameterSpec{.shape = t.shape}.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(t.name, static_cast<int64_t>(i));
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_of(t.type)));
    if (is_floating(t.type)) from_fp32(t.type, values, bytes.data());
    out.write(bytes);
  }
  out.commit();
}

// What element [row, column] of a parameter must be, said from the definition.
float expected(const HfParameter& p, int64_t row, int64_t column) {
  const int64_t columns = p.shape.size() == 2 ? p.shape[1] : 1;
  for (const HfPiece& piece : p.pieces) {
    if (row < piece.row || row >= piece.row + piece.rows) continue;
    const int64_t r = row - piece.row;
    return value_of(piece.name, piece.transposed ? column * piece.rows + r : r * columns + column);
  }
  fail("no row {}", row);
}

TEST(HfWeights, ReadsEveryElementInEveryType) {
  for (const ModelConfig& model : {kGpt2, kLlama}) {
    for (const ElementType type : {ElementType::f64, ElementType::f32, ElementType::f16, ElementType::bf16}) {
      const TemporaryDirectory folder;
      write_folder(folder.path(), tensors_of(model, type));
      const HfWeights weights(HfFolder(folder.path()), hf_naming(model));
      const auto parameters = hf_parameters(model);
      weights.check(parameter_specs(parameters));
      EXPECT_EQ(weights.stored_types(), (StoredTypes{.usual = type == ElementType::f64 ? ElementType::f32 : type}));
      EXPECT_EQ(weights.rounded().size(), type == ElementType::f64 ? tensors_of(model).size() : 0U);
      for (const HfParameter& p : parameters) {
        const auto values = read_all(weights, {.name = p.name, .shape = p.shape});
        const int64_t columns = p.shape.size() == 2 ? p.shape[1] : 1;
        for (int64_t i = 0; i < std::ssize(values); ++i)
          ASSERT_EQ(values[static_cast<size_t>(i)], expected(p, i / columns, i % columns)) << p.name << " " << i;
      }
    }
  }
}

TEST(HfWeights, ReadsAnyBox) {
  std::mt19937 random(1);
  for (const ModelConfig& model : {kGpt2, kLlama}) {
    const TemporaryDirectory folder;
    write_folder(folder.path(), tensors_of(model, ElementType::bf16));
    const HfWeights weights(HfFolder(folder.path()), hf_naming(model));
    for (const ParameterSpec& p : parameter_specs(hf_parameters(model))) {
      for (int round = 0; round < 60; ++round) expect_box_of_whole(weights, p, random_box(random, whole_box(p.shape)));
    }
  }
}

// Names without "transformer.", as GPT-2 itself is published, and what old versions stored beside.
TEST(HfWeights, TakesNamesWithoutPrefixAndOldBuffers) {
  std::vector<Tensor> tensors = tensors_of(kGpt2);
  for (Tensor& t : tensors) t.name = t.name.substr(std::string("transformer.").size());
  tensors.push_back({"h.0.attn.bias", {1, 1, 5, 5}, ElementType::u8});
  tensors.push_back({"h.1.attn.masked_bias", {}, ElementType::f32});
  const TemporaryDirectory folder;
  write_folder(folder.path(), tensors);
  const HfWeights weights(HfFolder(folder.path()), hf_naming(kGpt2));
  weights.check(parameter_specs(hf_parameters(kGpt2)));
  EXPECT_EQ(read_all(weights, {.name = "final_norm.bias", .shape = {6}})[3], value_of("ln_f.bias", 3));
}

std::string check_error(const fs::path& folder, const ModelConfig& model) {
  return error_message([&] {
    const HfWeights weights(HfFolder(folder), hf_naming(model));
    weights.check(parameter_specs(hf_parameters(model)));
  });
}

TEST(HfWeights, ListsEveryDifferenceByName) {
  const TemporaryDirectory folder;
  std::vector<Tensor> tensors = tensors_of(kLlama);
  std::erase_if(tensors, [](const Tensor& t) { return t.name == "model.layers.0.self_attn.k_proj.weight"; });
  for (Tensor& t : tensors) {
    if (t.name == "model.norm.weight") t.shape = {6};
    if (t.name == "model.layers.0.mlp.up_proj.weight") t.type = ElementType::i8;
  }
  tensors.push_back({"model.layers.1.mlp.up_proj.weight", {9, 5}});
  tensors.push_back({"score.weight", {2, 5}});
  write_folder(folder.path(), tensors);
  EXPECT_THAT(check_error(folder.path(), kLlama),
              AllOf(HasSubstr("missing from it: model.layers.0.self_attn.k_proj.weight"),
                    HasSubstr("not in this model: model.layers.1.mlp.up_proj.weight, score.weight"),
                    HasSubstr("of another shape: model.norm.weight [6] instead of [5]"),
                    HasSubstr("not supported: model.layers.0.mlp.up_proj.weight I8")));
}

TEST(HfWeights, ComparesWithTheParametersThatAreWanted) {
  const TemporaryDirectory folder;
  write_folder(folder.path(), tensors_of(kLlama));
  const HfWeights weights(HfFolder(folder.path()), hf_naming(kLlama));
  std::vector<ParameterSpec> wanted = parameter_specs(hf_parameters(kLlama));
  wanted[0].shape[0] = 8;
  wanted.back().name = "final_norm.other";
  EXPECT_THAT(error_message([&] { weights.check(wanted); }),
              AllOf(HasSubstr("missing from it: final_norm.other"), HasSubstr("not in this model: model.norm.weight"),
                    HasSubstr("embedding.token.weight [7, 5] instead of [8, 5]")));
  std::vector<float> out(1);
  EXPECT_THROW(weights.read(wanted[1], {0, 1, 0, 2}, out), Error);
  EXPECT_THROW(weights.read(wanted[1], {0, 1, whole_box(wanted[1].shape).columns, 1}, out), Error);
  EXPECT_THROW(weights.read({.name = "nothing", .shape = {1}}, {0, 1, 0, 1}, out), Error);
}

// A tied model's folder may hold the head as a copy; if it is another matrix, config.json is wrong.
TEST(HfWeights, ComparesTheHeadOfATiedModel) {
  const TemporaryDirectory folder;
  std::vector<Tensor> tensors = tensors_of(kLlama);
  tensors.push_back({"lm_head.weight", {7, 5}});
  write_folder(folder.path(), tensors);
  EXPECT_THAT(check_error(folder.path(), kLlama),
              HasSubstr("lm_head.weight differs from model.embed_tokens.weight, but config.json ties"));
  const fs::path file = folder / "model.safetensors";
  std::string bytes = read_file(file);
  const SafetensorsFile mapped(file);
  const auto place = [&](const char* name) {
    return static_cast<size_t>(reinterpret_cast<const char*>(mapped.bytes(mapped.at(name)).data()) -
                               reinterpret_cast<const char*>(mapped.bytes(mapped.entries()[0]).data())) +
           bytes.size() - static_cast<size_t>(mapped.entries().back().end);
  };
  bytes.replace(place("lm_head.weight"), 140, bytes.substr(place("model.embed_tokens.weight"), 140));
  write_file(file, bytes);
  EXPECT_EQ(check_error(folder.path(), kLlama), "no error");
}

// A storage of torch's may lie in any order: here the token table column by column, and its copy row by row.
TEST(HfWeights, ReadsTensorsThatAreNotContiguous) {
  const ModelConfig model{
      .layers = 1, .hidden_size = 1, .heads = 1, .ffn_hidden_size = 1, .vocab_size = 3, .max_length = 1};
  std::vector<PickleTensor> tensors;
  const auto one = [&](const std::string& name, std::vector<int32_t> shape) {
    tensors.push_back(
        {.name = name, .key = "1", .count = 9, .shape = shape, .strides = std::vector<int32_t>(shape.size(), 1)});
  };
  for (const HfParameter& p : hf_parameters(model)) {
    if (p.name == "embedding.token.weight") continue;
    const HfPiece& piece = p.pieces[0];
    one(piece.name, {piece.shape.begin(), piece.shape.end()});
  }
  // [3, 1] with every second element of a storage of 6.
  tensors.push_back({.name = "transformer.wte.weight", .count = 6, .offset = 1, .shape = {3, 1}, .strides = {2, 1}});
  std::string storage;
  for (float value : {0.F, 1.F, 2.F, 3.F, 4.F, 5.F}) storage += little(value);
  const TemporaryDirectory folder;
  write_file(folder / "pytorch_model.bin",
             torch_file_of(pickle_of(tensors), {{"0", storage}, {"1", std::string(36, '\0')}}));
  const HfWeights weights(HfFolder(folder.path()), hf_naming(model));
  weights.check(parameter_specs(hf_parameters(model)));
  EXPECT_EQ(read_all(weights, {.name = "embedding.token.weight", .shape = {3, 1}}), (std::vector<float>{1, 3, 5}));
}

// The same weights in every wrapping, by torch and safetensors themselves.
TEST(HfWeights, ReadsTheSameFromEveryForm) {
  for (const auto& [one, other] :
       {std::pair("gpt2_tied", "gpt2_tied_bin"), std::pair("gpt2_untied", "gpt2_untied_sharded"),
        std::pair("llama_gqa_tied", "llama_gqa_tied_bin_sharded")}) {
    const OpenModel a = open_folder(golden_folder(one)), b = open_folder(golden_folder(other));
    EXPECT_EQ(a.model, b.model);
    a.weights->check(a.parameters);
    b.weights->check(a.parameters);
    for (const ParameterSpec& p : a.parameters)
      EXPECT_EQ(read_all(*a.weights, p), read_all(*b.weights, p)) << other << " " << p.name;
  }
}

// Or under the head's name alone.
TEST(HfWeights, TakesATiedModelThatHoldsTheHeadAlone) {
  for (const ModelConfig& model : {kGpt2, kLlama}) {
    const std::string embedding =
        model.kind == ModelKind::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
    std::vector<Tensor> tensors = tensors_of(model);
    for (Tensor& t : tensors)
      if (t.name == embedding) t = {"lm_head.weight", t.shape, ElementType::bf16};
    const TemporaryDirectory folder;
    write_folder(folder.path(), tensors);
    const HfWeights weights(HfFolder(folder.path()), hf_naming(model));
    weights.check(parameter_specs(hf_parameters(model)));
    const auto table = read_all(weights, {.name = "embedding.token.weight", .shape = {7, model.hidden_size}});
    for (size_t i = 0; i < table.size(); ++i) ASSERT_EQ(table[i], value_of("lm_head.weight", static_cast<int64_t>(i)));
    EXPECT_EQ(weights.stored_types().of(embedding), ElementType::bf16);
  }
  // With neither, the embedding's name is what is missing; a model that is not tied needs both.
  std::vector<Tensor> tensors = tensors_of(kLlama);
  std::erase_if(tensors, [](const Tensor& t) { return t.name == "model.embed_tokens.weight"; });
  const TemporaryDirectory neither, untied;
  write_folder(neither.path(), tensors);
  EXPECT_THAT(check_error(neither.path(), kLlama), HasSubstr("missing from it: model.embed_tokens.weight"));
  tensors.push_back({"lm_head.weight", {7, 5}});
  write_folder(untied.path(), tensors);
  ModelConfig model = kLlama;
  model.tied_head = TiedHead::no;
  EXPECT_THAT(check_error(untied.path(), model), HasSubstr("missing from it: model.embed_tokens.weight"));
}

TEST(HfWeights, KnowsTheTypeOfEachTensor) {
  std::vector<Tensor> tensors = tensors_of(kLlama, ElementType::bf16);
  for (Tensor& t : tensors)
    if (t.name.ends_with("norm.weight")) t.type = ElementType::f32;
  const TemporaryDirectory folder;
  write_folder(folder.path(), tensors);
  const StoredTypes types = HfWeights(HfFolder(folder.path()), hf_naming(kLlama)).stored_types();
  EXPECT_EQ(types.usual, ElementType::bf16);
  EXPECT_EQ(types.others.size(), 3U);
  for (const Tensor& t : tensors) EXPECT_EQ(types.of(t.name), t.type) << t.name;
}

// torch's archives hold a CRC-32 of each storage: whichever byte of the tensors is changed, it is seen.
TEST(HfWeights, SeesAChangedByteOfPytorchModelBin) {
  const fs::path golden = golden_folder("gpt2_tied_bin");
  const std::string sound = read_file(golden / "pytorch_model.bin");
  const OpenModel model = open_folder(golden);
  std::vector<ZipEntry> storages;
  for (const ZipEntry& entry : parse_zip(std::as_bytes(std::span(sound)), "x"))
    if (entry.name.find("/data/") != std::string::npos || entry.name.ends_with("data.pkl")) storages.push_back(entry);
  ASSERT_GT(storages.size(), 20U);
  const TemporaryDirectory folder;
  for (const ZipEntry& entry : storages) {
    std::string bytes = sound;
    const auto at = static_cast<size_t>((entry.begin + entry.end) / 2);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file(folder / "pytorch_model.bin", bytes);
    EXPECT_THAT(error_message([&] {
                  const HfWeights weights(HfFolder(folder.path()), hf_naming(model.model));
                  for (const ParameterSpec& p : model.parameters) (void)read_all(weights, p);
                }),
                AllOf(HasSubstr("pytorch_model.bin is damaged: the checksum of '" + entry.name + "'")));
  }
}

}  // namespace
}  // namespace partita::internal
