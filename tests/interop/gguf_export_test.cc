#include "partita/interop/gguf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "partita/interop/mapped_tensor.h"
#include "tests/interop/gguf_reader.h"
#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const GgufMetadata kNoTokenizer = {{"tokenizer.ggml.model", std::string("none")}};

// tests/golden/make_gguf.py writes the same models with llama.cpp's package: names, shapes, order, keys and bytes.
TEST(GgufExport, IsWhatTheReferenceWrites) {
  for (const char* name : {"gpt2_untied", "llama_gqa_tied", "llama_rope_scaled"}) {
    const TemporaryDirectory folder;
    const OpenModel m = open_folder(golden_folder(name));
    export_gguf(folder / "model.gguf", *m.weights, {.model = m.model, .vocabulary = kNoTokenizer});
    const fs::path golden = fs::path(PARTITA_SOURCE_DIR) / "tests/golden/gguf" / (std::string(name) + ".gguf");
    EXPECT_EQ(read_gguf(folder / "model.gguf").metadata, read_gguf(golden).metadata) << name;
    EXPECT_TRUE(read_file(folder / "model.gguf") == read_file(golden)) << name;
  }
}

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> floats(const MappedTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// Multi-head attention, and heads that are not hidden_size / heads wide: element by element.
TEST(GgufExport, InterleavesQueriesAndKeys) {
  for (const auto& [name, heads, kv_heads, width] :
       {std::tuple("llama_mha", 3, 3, 8), std::tuple("llama_rope_scaled", 4, 2, 10)}) {
    const TemporaryDirectory folder;
    const OpenModel m = open_folder(golden_folder(name));
    export_gguf(folder / "model.gguf", *m.weights, {.model = m.model});
    const GgufContents file = read_gguf(folder / "model.gguf");
    const auto columns = static_cast<size_t>(m.model.hidden_size);
    for (const auto& [theirs, ours, count] : {std::tuple("q_proj", "attn_q", heads), {"k_proj", "attn_k", kv_heads}}) {
      const auto from = floats(m.weights->folder().at(fmt::format("model.layers.1.self_attn.{}.weight", theirs)));
      const auto to = floats(file.tensors.at(fmt::format("blk.1.{}.weight", ours)).bytes);
      ASSERT_EQ(to.size(), from.size());
      for (int head = 0; head < count; ++head)
        for (int pair = 0; pair < width / 2; ++pair)
          for (size_t c = 0; c < columns; ++c) {
            const auto first = static_cast<size_t>(head * width);
            const auto at = static_cast<size_t>(pair);
            ASSERT_EQ(to[(first + 2 * at) * columns + c], from[(first + at) * columns + c]);
            ASSERT_EQ(to[(first + 2 * at + 1) * columns + c],
                      from[(first + at + static_cast<size_t>(width / 2)) * columns + c]);
          }
    }
  }
}

TEST(GgufExport, EachTensorHasItsType) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("llama_gqa_tied_bf16"));
  export_gguf(folder / "same.gguf", *m.weights, {.model = m.model, .types = m.weights->stored_types()});
  export_gguf(folder / "half.gguf", *m.weights, {.model = m.model, .types = {.usual = ElementType::f16}});
  const GgufContents same = read_gguf(folder / "same.gguf"), half = read_gguf(folder / "half.gguf");
  EXPECT_EQ(same.metadata["general.file_type"], 32);
  EXPECT_EQ(half.metadata["general.file_type"], 1);
  for (const auto& [name, tensor] : same.tensors) {
    const bool vector = tensor.dimensions.size() == 1;
    EXPECT_EQ(tensor.type, vector ? 0U : 30U) << name;
    EXPECT_EQ(half.tensors.at(name).type, vector ? 0U : 1U) << name;
  }
  const MappedTensor& down = m.weights->folder().at("model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(same.tensors.at("blk.0.ffn_down.weight").bytes,
            std::string(reinterpret_cast<const char*>(down.bytes.data()), down.bytes.size()));
}

TEST(GgufExport, BlocksWhereRowsAllow) {
  class Numbers final : public WeightSource {
    void check(std::span<const ParameterSpec>) const override {}
    void read(const ParameterSpec& p, const Box& box, std::span<float> out) const override {
      const int64_t columns = whole_box(p.shape).columns;
      for (size_t i = 0; i < out.size(); ++i) {
        const int64_t at = static_cast<int64_t>(i);
        out[i] = static_cast<float>((box.row + at / box.columns) * columns + box.column + at % box.columns);
      }
    }
  };
  const ModelConfig model{
      .layers = 1, .hidden_size = 32, .heads = 2, .ffn_hidden_size = 40, .vocab_size = 5, .max_length = 3};
  const TemporaryDirectory folder;
  export_gguf(folder / "model.gguf", Numbers(), {.model = model, .q8_0 = true});
  const GgufContents file = read_gguf(folder / "model.gguf");
  EXPECT_EQ(file.metadata["general.file_type"], 7);
  EXPECT_EQ(file.metadata["general.quantization_version"], 2);
  EXPECT_EQ(file.tensors.at("token_embd.weight").type, 8U);
  EXPECT_EQ(file.tensors.at("blk.0.ffn_up.weight").type, 8U);
  EXPECT_EQ(file.tensors.at("blk.0.ffn_down.weight").type, 1U);  // rows of 40
  EXPECT_EQ(file.tensors.at("position_embd.weight").type, 0U);
  EXPECT_EQ(floats(file.tensors.at("position_embd.weight").bytes)[95], 95);
  // Row 1 of the tokens: 32 to 63 in steps of 63 / 127.
  EXPECT_EQ(file.tensors.at("token_embd.weight").bytes.substr(34, 4), std::string("\xF0\x37\x41\x43", 4));
}

TEST(GgufExport, OverwritesNothingAndLeavesNothingBehind) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("llama_mha"));
  const auto message = [&](const fs::path& path, const GgufExportOptions& options) {
    return error_message([&] { export_gguf(path, *m.weights, options); });
  };
  write_file(folder / "there.gguf", "a");
  EXPECT_THAT(message(folder / "there.gguf", {.model = m.model}),
              HasSubstr("there.gguf already exists: nothing is overwritten"));
  EXPECT_EQ(read_file(folder / "there.gguf"), "a");
  EXPECT_THAT(message(folder.path(), {.model = m.model}), HasSubstr("is a folder: give the name of a file"));
  ModelConfig other = m.model;
  other.layers = 3;
  EXPECT_THAT(message(folder / "new/x.gguf", {.model = other}),
              HasSubstr("missing from it: layers.2.attention.norm.weight"));
  EXPECT_THAT(message(folder / "new/x.gguf", {.model = m.model, .types = {.usual = ElementType::i8}}),
              HasSubstr("weights are not exported as I8"));
  {
    const FileSizeLimit limit(4096);
    EXPECT_THAT(message(folder / "new/x.gguf", {.model = m.model}), HasSubstr("cannot write"));
  }
  EXPECT_FALSE(fs::exists(folder / "new"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(message(folder / "new/x.gguf", {.model = m.model}), "no error");
}

// 128 MB of weights in memory of a few pieces.
TEST(GgufExport, MemoryDoesNotGrowWithTheModel) {
  class Zeros final : public WeightSource {
    void check(std::span<const ParameterSpec>) const override {}
    void read(const ParameterSpec&, const Box&, std::span<float> out) const override { std::ranges::fill(out, 0.F); }
  };
  const ModelConfig model{.kind = ModelKind::llama,
                          .layers = 1,
                          .hidden_size = 2048,
                          .heads = 16,
                          .ffn_hidden_size = 1024,
                          .vocab_size = 2048,
                          .max_length = 8};
  const TemporaryDirectory folder;
  ResidentMemory memory;
  export_gguf(folder / "model.gguf", Zeros(), {.model = model});
  EXPECT_LE(memory.growth(), 24 << 20);
  EXPECT_GT(fs::file_size(folder / "model.gguf"), 120 << 20);
}

}  // namespace
}  // namespace partita::internal
