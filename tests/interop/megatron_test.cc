#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/interop/megatron_args.h"
#include "partita/interop/megatron_file.h"
#include "partita/interop/megatron_names.h"
#include "partita/interop/megatron_ranks.h"
#include "partita/interop/model_source.h"
#include "tests/interop/dcp_writer.h"
#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

fs::path golden(const std::string& name) { return fs::path(PARTITA_SOURCE_DIR) / "tests/golden/trainers" / name; }

json llama_arguments() {
  return {{"num_layers", 2},
          {"hidden_size", 12},
          {"ffn_hidden_size", 10},
          {"num_attention_heads", 4},
          {"group_query_attention", true},
          {"num_query_groups", 2},
          {"kv_channels", 6},
          {"max_position_embeddings", 16},
          {"padded_vocab_size", 24},
          {"position_embedding_type", "rope"},
          {"rotary_base", 500},
          {"normalization", "RMSNorm"},
          {"norm_epsilon", 1e-4},
          {"swiglu", true},
          {"add_bias_linear", false},
          {"untie_embeddings_and_output_weights", true}};
}
json gpt_arguments() {
  return {{"num_layers", 2},
          {"hidden_size", 6},
          {"ffn_hidden_size", 14},
          {"num_attention_heads", 2},
          {"group_query_attention", false},
          {"num_query_groups", 1},
          {"kv_channels", 3},
          {"max_position_embeddings", 8},
          {"padded_vocab_size", 24},
          {"position_embedding_type", "learned_absolute"}};
}
std::string error_of(const json& arguments) {
  return error_message([&] { (void)megatron_model(arguments, "common.pt"); });
}

TEST(MegatronArguments, DescribeTheModel) {
  const ModelConfig llama = megatron_model(llama_arguments(), "x");
  EXPECT_EQ(llama.kind, ModelKind::llama);
  EXPECT_EQ(llama.layers, 2);
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.head_size(), 6);
  EXPECT_EQ(llama.ffn_hidden_size, 10);
  EXPECT_EQ(llama.vocab_size, 24);
  EXPECT_EQ(llama.max_length, 16);
  EXPECT_EQ(llama.rope_theta, 500);
  EXPECT_EQ(llama.rope_factor, 1);
  EXPECT_EQ(llama.norm_epsilon, 1e-4);
  EXPECT_FALSE(llama.has_tied_head());
  json scaled = llama_arguments();
  scaled["use_rope_scaling"] = true;
  scaled["rope_scaling_factor"] = 32.0;
  EXPECT_EQ(megatron_model(scaled, "x").rope_factor, 32);
  EXPECT_EQ(megatron_model(scaled, "x").rope_original_length, 8192);
  json ungrouped = llama_arguments();
  ungrouped["group_query_attention"] = false;  // num_query_groups is 1 or null then, and has no meaning
  EXPECT_EQ(megatron_model(ungrouped, "x").key_value_heads(), 4);

  const ModelConfig gpt = megatron_model(gpt_arguments(), "x");
  EXPECT_EQ(gpt.kind, ModelKind::gpt2);
  EXPECT_TRUE(gpt.has_tied_head());
  EXPECT_EQ(gpt.norm_epsilon, 1e-5);
  EXPECT_EQ(gpt.dropout, 0.1);
}

TEST(MegatronArguments, RefuseOtherModelsByName) {
  struct Change {
    const char* name;
    json value;
    const char* message;
    bool gpt = false;
  };
  const std::vector<Change> changes = {
      {"num_experts", 8, "args.num_experts is 8, supported: null; mixtures of experts are not read"},
      {"qk_layernorm", true, "args.qk_layernorm is true, supported: false or null"},
      {"add_qkv_bias", true, "args.add_qkv_bias"},
      {"multi_latent_attention", true, "args.multi_latent_attention"},
      {"rotary_interleaved", true, "args.rotary_interleaved"},
      {"rotary_percent", 0.5, "args.rotary_percent is 0.5, supported: 1"},
      {"softmax_type", "off-by-one", "args.softmax_type"},
      {"window_size", "<a list>", "args.window_size"},
      {"apply_layernorm_1p", true, "args.apply_layernorm_1p"},
      {"normalization", "LayerNorm", "args.normalization is \"LayerNorm\", supported: RMSNorm"},
      {"swiglu", false, "args.swiglu is false, supported: true; with rotary positions"},
      {"add_bias_linear", true, "args.add_bias_linear is true, supported: false"},
      {"position_embedding_type", "mrope", "args.position_embedding_type is \"mrope\""},
      {"num_layers", nullptr, "args.num_layers is missing"},
      {"num_layers", "<__main__.Number>", "args.num_layers is \"<__main__.Number>\", supported: a whole number"},
      {"num_layers", 0, "layers"},
      {"padded_vocab_size", 0, "the vocabulary of 0"},
      {"num_query_groups", 3, "model.kv_heads 3 does not divide"},
      {"position_embedding_type", "none", "args.position_embedding_type is \"none\"", true},
      {"swiglu", true, "args.swiglu is true, supported: false; with learned positions", true},
      {"normalization", "RMSNorm", "args.normalization is \"RMSNorm\", supported: LayerNorm", true},
      {"bias_gelu_fusion", false, "args.bias_gelu_fusion is false, supported: true, or openai_gelu", true},
      {"add_bias_linear", false, "args.add_bias_linear is false, supported: true", true},
      {"squared_relu", true, "args.squared_relu", true},
      {"kv_channels", 4, "model.head_width is 4", true},
      {"glu_linear_offset", 1.0, "args.glu_linear_offset is 1.0, supported: 0"},
      {"spec", {"module", "layers"}, "args.spec is [\"module\",\"layers\"], supported: null"},
      {"group_query_attention", true, "args.num_query_groups is 1, supported: 2, as many as heads", true},
  };
  for (const Change& change : changes) {
    json arguments = change.gpt ? gpt_arguments() : llama_arguments();
    arguments[change.name] = change.value;
    EXPECT_THAT(error_of(arguments), AllOf(HasSubstr("common.pt: "), HasSubstr(change.message))) << change.name;
  }
}

TEST(MegatronArguments, DefaultsOfOtherModelsAreTaken) {
  json arguments = llama_arguments();
  arguments["glu_linear_offset"] = 0.0;
  arguments["spec"] = nullptr;
  EXPECT_EQ(error_of(arguments), "no error");
}

TEST(MegatronArguments, DifferencesAreNamed) {
  const ModelConfig model = megatron_model(llama_arguments(), "x");
  ModelConfig other = model;
  other.vocab_size = 21;
  other.max_length = 99;
  EXPECT_EQ(model_differences(model, other), "");
  other.layers = 3;
  other.norm_epsilon = 1e-6;
  EXPECT_EQ(model_differences(model, other), "layers 2 and 3, norm_epsilon 0.0001 and 1e-06");
  other = model;
  other.rope_theta = 10000;
  EXPECT_EQ(model_differences(model, other), "rope_theta 500 and 10000");
}

// Heads of two groups: rows of queries, a key and a value each.
TEST(MegatronNames, RowsOfQueriesKeysAndValues) {
  const ModelConfig model = megatron_model(llama_arguments(), "x");
  const auto parameter = [&](const ChunkedTensors& tensors, const std::string& name) {
    const ChunkedNaming naming = megatron_naming(model, tensors);
    return *std::ranges::find(naming.parameters, name, &ChunkedParameter::name);
  };
  const ChunkedTensors stacked = {{"decoder.layers.self_attention.linear_qkv.weight", {}}};
  const ChunkedParameter qkv = parameter(stacked, "layers.1.attention.qkv.weight");
  ASSERT_EQ(qkv.pieces.size(), 6U);
  const std::vector<std::array<int64_t, 3>> expected = {
      // our row, rows, their row
      {0, 12, 0}, {24, 6, 12}, {36, 6, 18}, {12, 12, 24}, {30, 6, 36}, {42, 6, 42}};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(qkv.pieces[i].name, "decoder.layers.self_attention.linear_qkv.weight");
    EXPECT_EQ(qkv.pieces[i].layer, 1);
    EXPECT_EQ(qkv.pieces[i].shape, (std::vector<int64_t>{2, 48, 12}));
    EXPECT_EQ((std::array{qkv.pieces[i].row, qkv.pieces[i].rows, qkv.pieces[i].their_row}), expected[i]) << i;
  }
  EXPECT_EQ(parameter(stacked, "layers.0.mlp.norm.weight").pieces[0].name,
            "decoder.layers.mlp.linear_fc1.layer_norm_weight");
  const ChunkedTensors numbered = {{"decoder.layers.0.input_layernorm.weight", {}}};
  EXPECT_EQ(parameter(numbered, "layers.1.mlp.norm.weight").pieces[0].name,
            "decoder.layers.1.pre_mlp_layernorm.weight");
  EXPECT_EQ(parameter(numbered, "head.weight").pieces[0].name, "output_layer.weight");
  EXPECT_TRUE(parameter(numbered, "head.weight").pieces[0].padded);
  const ChunkedTensors split = {{"decoder.layers.0.mlp.linear_fc1.weight_w", {}}};
  const ChunkedParameter gate_up = parameter(split, "layers.1.mlp.gate_up.weight");
  ASSERT_EQ(gate_up.pieces.size(), 2U);
  EXPECT_EQ(gate_up.pieces[1].name, "decoder.layers.1.mlp.linear_fc1.weight_v");
  EXPECT_EQ(gate_up.pieces[1].row, 10);
  EXPECT_EQ(gate_up.pieces[1].shape, (std::vector<int64_t>{10, 12}));
}

TEST(MegatronNames, OfTheOlderModel) {
  EXPECT_EQ(megatron_core_name("language_model.embedding.word_embeddings.weight"), "embedding.word_embeddings.weight");
  EXPECT_EQ(megatron_core_name("language_model.encoder.layers.3.self_attention.query_key_value.bias"),
            "decoder.layers.3.self_attention.linear_qkv.bias");
  EXPECT_EQ(megatron_core_name("language_model.transformer.layers.3.attention.dense.weight"),
            "decoder.layers.3.self_attention.linear_proj.weight");
  EXPECT_EQ(megatron_core_name("language_model.encoder.layers.0.post_attention_layernorm.weight"),
            "decoder.layers.0.pre_mlp_layernorm.weight");
  EXPECT_EQ(megatron_core_name("language_model.encoder.layers.0.mlp.dense_4h_to_h.weight"),
            "decoder.layers.0.mlp.linear_fc2.weight");
  EXPECT_EQ(megatron_core_name("language_model.output_layer.weight"), "output_layer.weight");
  EXPECT_EQ(megatron_core_name("word_embeddings_for_head.weight"), "output_layer.weight");
  EXPECT_EQ(megatron_core_name("decoder.x"), "decoder.x");
}

// -- files

std::string file_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& [key, value] : entries) items.emplace_back(text(key), value);
  return torch_file_of("\x80\x02" + dictionary(items) + ".", {{"0", std::string(24, 'x')}});
}
std::string arguments_of(const std::vector<std::pair<std::string, std::string>>& attributes) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& [key, value] : attributes) items.emplace_back(text(key), value);
  return object("argparse", "Namespace", dictionary(items));
}
MegatronFile open_bytes(const std::string& file) { return {std::as_bytes(std::span(file)), "x.pt"}; }

// Python objects of any class are placeholders that nothing builds or calls.
TEST(MegatronFile, KeepsUnknownObjectsAsPlaceholders) {
  const std::string system = name("os", "system") + text("id") + "\x85R";
  const std::string large = std::string("\x8a\x09", 2) + std::string(8, '\0') + "\x01";
  const std::string random = name("numpy.core.multiarray", "_reconstruct") + name("numpy", "ndarray") + "K\x01" +
                             "\x85" + name("_codecs", "encode") + text("b") + text("latin1") + "\x86R\x87R(K\x01" +
                             text("x") + "tb";
  const std::string file = file_of({
      {"args", arguments_of({{"num_layers", "K\x05"},
                             {"lr", "G" + std::string("\x3f\xe0\0\0\0\0\0\0", 8)},
                             {"name", text("a\nb")},
                             {"none", "N"},
                             {"yes", "\x88"},
                             {"list", "](" + text("0.5") + "K\x01" + "]e"},
                             {"attack", system},
                             {"backend", name("__main__", "Backend") + "K\x05\x85R"},
                             {"dtype", name("torch", "bfloat16")}})},
      {"flops", large},
      {"rng_state", random},
      {"checkpoint_version", "G" + std::string("\x40\x08\0\0\0\0\0\0", 8)},
      {"model", dictionary({{text("a"), dictionary({{text("w"), tensor({})}, {text("_extra_state"), "N"}})},
                            {text("odd"), name("torch._utils", "_rebuild_tensor_v3") + ")R"},
                            {text("set"), "\x8f(K\x01\x90"}})},
  });
  const MegatronFile opened = open_bytes(file);
  EXPECT_EQ(*opened.arguments(), (json{{"num_layers", 5},
                                       {"lr", 0.5},
                                       {"name", "a\\x0ab"},
                                       {"none", nullptr},
                                       {"yes", true},
                                       {"list", {"0.5", 1, "<a list>"}},
                                       {"attack", "<os.system>"},
                                       {"backend", "<__main__.Backend>"},
                                       {"dtype", "<torch.bfloat16>"}}));
  EXPECT_EQ(opened.number("checkpoint_version"), 3.0);
  EXPECT_EQ(opened.number("flops"), std::nullopt);
  EXPECT_TRUE(opened.has("rng_state"));
  const auto tensors = opened.tensors("model");
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors.at("a.w").tensor->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors.at("odd").what, "torch._utils._rebuild_tensor_v3");
  EXPECT_EQ(tensors.at("set").what, "a set");
}

TEST(MegatronFile, RefusesWhatIsNoCheckpoint) {
  const auto error = [](const std::string& file) {
    return error_message([&] { (void)open_bytes(file).tensors("model"); });
  };
  const auto pickled = [&](const std::string& opcodes) { return error(torch_file_of("\x80\x02" + opcodes, {})); };
  EXPECT_THAT(pickled("N."), HasSubstr("a dictionary of a checkpoint was expected"));
  EXPECT_THAT(pickled("}."), HasSubstr("x.pt holds no 'model'"));
  EXPECT_EQ(error(file_of({{"model", "}"}})), "no error");
  EXPECT_THAT(error(file_of({{"model", "K\x01"}})), HasSubstr("a dictionary of tensors was expected"));
  EXPECT_THAT(error(file_of({{"model", "}K\x01Ns"}})), HasSubstr("a name of a tensor was expected"));
  // A dictionary in itself, twice in another, and nested deeper than any model's.
  EXPECT_THAT(error(file_of({{"model", "}q\x01" + text("a") + "h\x01s"}})), HasSubstr("occurs twice"));
  EXPECT_THAT(error(file_of({{"model", "}(" + text("a") + "}q\x01" + text("b") + "h\x01u"}})),
              HasSubstr("occurs twice"));
  std::string deep = "}";
  for (int i = 0; i < 10; ++i) deep = "}" + text("a") + deep + "s";
  EXPECT_THAT(error(file_of({{"model", deep}})), HasSubstr("is nested more than 8 deep"));
  EXPECT_THAT(error(file_of({{"model", "}" + text("w") + tensor({.key = "7"}) + "s"}})), HasSubstr("which is missing"));
  EXPECT_THAT(pickled("\xf0."), HasSubstr("the opcode 0xf0 is not allowed"));
  EXPECT_THAT(pickled("(o."), HasSubstr("OBJ"));
  EXPECT_THAT(pickled("(ios\nsystem\n."), HasSubstr("INST"));
  EXPECT_THAT(pickled("h\x07."), HasSubstr("its memo holds nothing at 7"));
}

// Long texts and lists that are written once can be named any number of times.
TEST(MegatronFile, BoundsWhatItCopies) {
  const auto tensors = [](size_t length) {
    const std::string file =
        file_of({{"model", "}" + text(std::string(length, 'p')) + "}" + text("w") + tensor({}) + "ss"}});
    return error_message([&] { (void)open_bytes(file).tensors("model"); });
  };
  EXPECT_EQ(tensors(999), "no error");
  EXPECT_THAT(tensors(1000), HasSubstr("a name of 1001 bytes"));
  const auto arguments = [](int lists) {
    std::string list = "](";
    for (int i = 0; i < 999; ++i) list += "N";
    std::vector<std::pair<std::string, std::string>> attributes = {{"a", list + "eq\x09"}};
    for (int i = 1; i < lists; ++i) attributes.emplace_back(std::to_string(i), "h\x09");
    const std::string file = file_of({{"args", arguments_of(attributes)}});
    return error_message([&] { (void)open_bytes(file).arguments(); });
  };
  EXPECT_EQ(arguments(50), "no error");
  EXPECT_THAT(arguments(51), HasSubstr("args hold more than 50000 values"));
}

// -- ranks

class Copy {
 public:
  explicit Copy(const std::string& name) { fs::copy(golden(name), folder_.path(), fs::copy_options::recursive); }
  [[nodiscard]] fs::path operator/(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::string error(const fs::path& config = {}) const {
    return error_message([&] {
      const ModelSource source = open_model(folder_.path(), {}, config);
      source.weights->check(parameter_specs(hf_parameters(source.model)));
    });
  }

 private:
  TemporaryDirectory folder_;
};

TEST(MegatronRanks, RefuseAnIncompleteCheckpoint) {
  {
    const Copy copy("ranks");
    EXPECT_EQ(copy.error(), "no error");
    fs::remove(copy / "iter_0000100/mp_rank_01_001/model_optim_rng.pt");
    EXPECT_THAT(copy.error(), HasSubstr("mp_rank_01_001/model_optim_rng.pt is missing"));
    fs::remove_all(copy / "iter_0000100/mp_rank_01_001");
    EXPECT_THAT(copy.error(), HasSubstr("has no folder of tensor-parallel rank 1 and pipeline rank 1"));
    fs::remove_all(copy / "iter_0000100/mp_rank_00_001");
    EXPECT_THAT(copy.error(), HasSubstr("pipeline_model_parallel_size is 2, and there are folders of 1 ranks"));
    fs::create_directory(copy / "iter_0000100/mp_rank_00_000_001");
    EXPECT_THAT(copy.error(), HasSubstr("mp_rank_00_000_001 belongs to an expert-parallel rank"));
  }
  const Copy copy("ranks");
  write_file(copy / "latest_checkpointed_iteration.txt", "200");
  EXPECT_THAT(copy.error(), AllOf(HasSubstr("names iteration 200, but"), HasSubstr("iter_0000200 does not exist")));
  write_file(copy / "latest_checkpointed_iteration.txt", "latest");
  EXPECT_THAT(copy.error(), HasSubstr("holds 'latest': expected the number of an iteration"));
  fs::rename(copy / "iter_0000100", copy / "release");
  write_file(copy / "latest_checkpointed_iteration.txt", "release");
  EXPECT_EQ(copy.error(), "no error");
  // Rank 1's file in the place of rank 0's of the other stage.
  fs::copy_file(copy / "release/mp_rank_01_000/model_optim_rng.pt", copy / "release/mp_rank_01_001/model_optim_rng.pt",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(copy.error(), HasSubstr("hold different tensors"));
}

TEST(MegatronRanks, FindAChangedByte) {
  const Copy copy("ranks_old");
  const fs::path path = copy / "iter_0000100/mp_rank_01/model_optim_rng.pt";
  std::string file = read_file(path);
  const size_t header = file.find("data/10");
  file[header + 120] ^= 64;
  write_file(path, file);
  const ModelSource source = open_model(copy / "");
  int damaged = 0;
  for (const ParameterSpec& p : parameter_specs(hf_parameters(source.model)))
    if (error_message([&] { (void)read_all(*source.weights, p); }) != "no error") ++damaged;
  EXPECT_EQ(damaged, 1);
}

TEST(MegatronRanks, RefuseOldOrders) {
  const TemporaryDirectory folder;
  fs::create_directories(folder / "mp_rank_00");
  write_file(folder / "mp_rank_00/model_optim_rng.pt", file_of({{"model", "}"}}));
  EXPECT_THAT(error_message([&] { (void)MegatronRanks(folder.path()); }),
              HasSubstr("checkpoint_version is 0, which orders the rows"));
}

// A tensor whose sizes and strides may be anything, in a storage of 24 bytes.
std::string wide_tensor(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                        const std::string& type = "ByteStorage", int32_t count = 24) {
  const auto wide = [](const std::vector<int64_t>& values) {
    std::string out = "(";
    for (const int64_t value : values) out += "\x8a\x08" + little(value);
    return out + "t";
  };
  return name("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") + name("torch", type) + text("0") +
         text("cpu") + integer(count) + "tQ" + integer(0) + wide(shape) + wide(strides) + "\x89" +
         empty_ordered_dict() + "tR";
}

class Ranks {
 public:
  void add(int rank, const std::vector<std::pair<std::string, std::string>>& tensors, const char* iteration = "K\x07",
           const char* version = "K\x03") const {
    std::vector<std::pair<std::string, std::string>> items;
    for (const auto& [key, value] : tensors) items.emplace_back(text(key), value);
    const fs::path folder = folder_ / fmt::format("mp_rank_{:02}", rank);
    fs::create_directories(folder);
    write_file(folder / "model_optim_rng.pt",
               file_of({{"checkpoint_version", version}, {"iteration", iteration}, {"model", dictionary(items)}}));
  }
  [[nodiscard]] std::string error() const {
    return error_message([&] { (void)MegatronRanks(folder_.path()).tensors(true); });
  }
  [[nodiscard]] MegatronRanks open() const { return MegatronRanks(folder_.path()); }

 private:
  TemporaryDirectory folder_;
};

TEST(MegatronRanks, AreOfOneCheckpoint) {
  const Ranks ranks;
  ranks.add(0, {{"w", tensor({})}});
  ranks.add(1, {{"w", tensor({})}});
  EXPECT_EQ(ranks.error(), "no error");
  ranks.add(1, {{"w", tensor({})}}, "K\x08");
  EXPECT_THAT(ranks.error(), AllOf(HasSubstr("iteration of "), HasSubstr("mp_rank_00/model_optim_rng.pt is 7, and of "),
                                   HasSubstr("mp_rank_01/model_optim_rng.pt 8: they are not ranks of one checkpoint")));
  ranks.add(1, {{"w", tensor({})}}, "N");
  EXPECT_THAT(ranks.error(), HasSubstr("mp_rank_01/model_optim_rng.pt missing"));
  ranks.add(1, {{"w", tensor({})}}, "K\x07", "K\x02");
  EXPECT_THAT(ranks.error(), HasSubstr("checkpoint_version of "));
  for (const auto& [first, second] : {std::pair(0, 1), std::pair(1, 0)}) {
    ranks.add(first, {{"w", tensor({})}});
    ranks.add(second, {{"w", tensor({})}, {"x", tensor({})}});
    EXPECT_THAT(ranks.error(), HasSubstr("hold different tensors 'x'"));
  }
  ranks.add(0, {{"w", tensor({})}, {"x._extra_state", "\x8f"}});  // which ranks need not have in common
  ranks.add(1, {{"w", tensor({})}});
  EXPECT_EQ(ranks.error(), "no error");
}

TEST(MegatronRanks, SurviveImpossibleShapes) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::string qkv = "decoder.layers.0.self_attention.linear_qkv.weight";
  const std::string fc1 = "decoder.layers.0.mlp.linear_fc1.weight";
  Ranks ranks;
  for (const int rank : {0, 1}) ranks.add(rank, {{qkv, wide_tensor({kHuge, 0}, {1, 1})}});
  EXPECT_THAT(ranks.error(),
              HasSubstr("linear_qkv.weight: 2 ranks of [4611686018427387904, 0] have an impossible shape"));
  // Empty, with a stride that takes its second half out of the range of 63 bits.
  for (const int rank : {0, 1}) ranks.add(rank, {{fc1, wide_tensor({6, 0}, {kHuge / 4, 1}, "FloatStorage", 6)}});
  const MegatronRanks opened = ranks.open();
  const ChunkedTensors tensors = opened.tensors(true);
  ASSERT_EQ(tensors.at(fc1).chunks.size(), 4U);
  for (const TensorChunk& chunk : tensors.at(fc1).chunks) EXPECT_TRUE(chunk.open().bytes.empty());
}

TEST(MegatronFolder, WarnsOfFp8) {
  const auto warnings = [](const std::string& fp8) {
    const Copy copy("torch_dist");
    std::vector<std::pair<std::string, std::string>> attributes = {{"fp8", fp8}};
    const json arguments = llama_arguments();
    for (const auto& [name, value] : arguments.items()) {
      if (value.is_boolean()) attributes.emplace_back(name, value.get<bool>() ? "\x88" : "\x89");
      if (value.is_number_integer()) attributes.emplace_back(name, integer(value.get<int32_t>()));
      if (value.is_string()) attributes.emplace_back(name, text(value.get<std::string>()));
    }
    attributes.emplace_back("norm_epsilon", "G" + std::string("\x3f\x1a\x36\xe2\xeb\x1c\x43\x2d", 8));  // 1e-4
    write_file(copy / "iter_0000100/common.pt", file_of({{"args", arguments_of(attributes)}}));
    return open_model(copy / "").warnings;
  };
  EXPECT_THAT(warnings("N"), IsEmpty());
  EXPECT_THAT(warnings("\x89"), IsEmpty());
  EXPECT_THAT(warnings(text("hybrid")), ElementsAre(HasSubstr("it was trained in fp8")));
}

TEST(MegatronFolder, RefusesWhatIsNotTorchDist) {
  const Copy copy("torch_dist");
  const fs::path metadata = copy / "iter_0000100/metadata.json";
  write_file(metadata, R"({"sharded_backend": "zarr", "sharded_backend_version": 1})");
  EXPECT_THAT(copy.error(), HasSubstr("sharded_backend is \"zarr\", supported: \"torch_dist\""));
  fs::remove(metadata);
  EXPECT_THAT(copy.error(), HasSubstr("is not complete: metadata.json, which Megatron-LM writes last, is missing"));
}

TEST(MegatronFolder, TheArgumentsMayBeMissingOrAgree) {
  const Copy copy("torch_dist");
  json config = json::parse(read_file(golden("llama") / "config.json"));
  const fs::path file = copy / "given.json";
  write_file(file, config.dump());
  EXPECT_EQ(copy.error(file), "no error");
  config["rms_norm_eps"] = 1e-6;
  write_file(file, config.dump());
  EXPECT_THAT(copy.error(file), AllOf(HasSubstr("given.json and the arguments in"),
                                      HasSubstr("describe different models: norm_epsilon 1e-06 and 0.0001")));
  config["rms_norm_eps"] = 1e-4;
  config["vocab_size"] = 25;
  write_file(file, config.dump());
  EXPECT_THAT(copy.error(file), HasSubstr("has a vocabulary of 25"));
  config["vocab_size"] = 21;
  write_file(file, config.dump());
  fs::remove(copy / "iter_0000100/common.pt");
  EXPECT_THAT(copy.error(),
              HasSubstr("holds no arguments of the training (args): put the model's config.json into it"));
  EXPECT_EQ(copy.error(file), "no error");
}

// Newer versions keep the arguments in an object of the DCP folder instead of common.pt.
TEST(MegatronFolder, TakesArgumentsFromTheFolderItself) {
  const TemporaryDirectory folder;
  const std::string archive = torch_file_of(
      "\x80\x02](" + dictionary({{text("args"), arguments_of({{"num_layers", "K\x03"}, {"num_experts", "K\x08"}})}}) +
          "e.",
      {});
  DcpPart place{.length = static_cast<int32_t>(archive.size())};
  const std::string index = dcp_index("common_state/shard_0_1", nullptr);
  write_file(folder / ".metadata",
             "\x80\x02" +
                 object(kDcpModule, "Metadata",
                        dictionary({{text("state_dict_metadata"),
                                     dictionary({{text("common_state/shard_0_1"),
                                                  name(kDcpModule, "BytesStorageMetadata") + ")\x81"}})},
                                    {text("storage_data"), dictionary({{index, dcp_place(place)}})}})) +
                 ".");
  write_file(folder / "__0_0.distcp", archive);
  write_file(folder / "metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_THAT(error_message([&] { (void)open_model(folder.path()); }),
              AllOf(HasSubstr("common_state/shard_0_1: args.num_experts is 8"), HasSubstr("mixtures of experts")));
}

}  // namespace
}  // namespace partita::internal
