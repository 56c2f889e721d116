// Files of llm.c, in and out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "partita/interop/llmc_export.h"
#include "partita/interop/llmc_format.h"
#include "partita/interop/llmc_weights.h"
#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// tests/golden/make_llmc.py: hf/gpt2_tied, as llm.c's script writes it.
fs::path golden(const std::string& dtype) {
  return fs::path(PARTITA_SOURCE_DIR) / "tests/golden/llmc" / ("gpt2_tied_" + dtype + ".bin");
}

TEST(Llmc, ReadsTheModelAndItsWeights) {
  const OpenModel m = open_folder(golden_folder("gpt2_tied"));
  const LlmcWeights exact(golden("fp32")), rounded(golden("bf16"));
  EXPECT_EQ(exact.header().dtype, DType::fp32);
  EXPECT_EQ(rounded.header().dtype, DType::bf16);
  EXPECT_EQ(exact.header().padded_vocab, 128);
  ModelConfig expected = m.model;
  EXPECT_EQ(exact.header().model.vocab_size, 61);
  expected.init_std = exact.header().model.init_std;  // not in the file
  EXPECT_EQ(exact.header().model, expected);
  exact.check(m.parameters);
  std::mt19937 random(2);
  for (const ParameterSpec& p : m.parameters) {
    const std::vector<float> values = read_all(*m.weights, p), near = read_all(rounded, p);
    EXPECT_EQ(read_all(exact, p), values) << p.name;
    for (size_t i = 0; i < near.size(); ++i) ASSERT_NEAR(near[i], values[i], std::abs(values[i]) * 0x1p-8F) << p.name;
    for (int round = 0; round < 20; ++round) expect_box_of_whole(rounded, p, random_box(random, whole_box(p.shape)));
  }
}

TEST(Llmc, WritesWhatTheReferenceWrites) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("gpt2_tied"));
  export_llmc(folder / "fp32.bin", *m.weights, m.model, DType::fp32);
  export_llmc(folder / "bf16.bin", *m.weights, m.model, DType::bf16);
  for (const char* dtype : {"fp32", "bf16"})
    EXPECT_TRUE(read_file(folder / (std::string(dtype) + ".bin")) == read_file(golden(dtype))) << dtype;
  const LlmcWeights read(folder / "bf16.bin");  // and once around
  export_llmc(folder / "again.bin", read, read.header().model, DType::bf16);
  EXPECT_TRUE(read_file(folder / "again.bin") == read_file(golden("bf16")));
}

TEST(Llmc, PadsTheVocabulary) {
  const OpenModel m = open_folder(golden_folder("gpt2_tied"));
  for (const auto& [vocab, padded] :
       {std::pair<int64_t, int64_t>(1, 128), {127, 128}, {128, 128}, {129, 256}, {50257, 50304}}) {
    ModelConfig model = m.model;
    model.vocab_size = vocab;
    EXPECT_EQ(llmc_header(model, DType::fp32).padded_vocab, padded);
  }
}

TEST(Llmc, RefusesOtherModels) {
  const OpenModel m = open_folder(golden_folder("gpt2_tied"));
  const auto message = [&](auto change, DType dtype = DType::fp32) {
    ModelConfig model = m.model;
    change(model);
    return error_message([&] { (void)llmc_header(model, dtype); });
  };
  EXPECT_THAT(message([](ModelConfig& c) { c.kind = ModelKind::llama; }),
              HasSubstr("llm.c's format has no Llama models"));
  EXPECT_THAT(message([](ModelConfig& c) { c.tied_head = TiedHead::no; }), HasSubstr("no head of its own"));
  EXPECT_THAT(message([](ModelConfig& c) { c.ffn_hidden_size = 40; }), HasSubstr("no MLP of width 40 (72 expected"));
  EXPECT_THAT(message([](ModelConfig& c) { c.norm_epsilon = 1e-3; }),
              HasSubstr("no norm_epsilon of 0.001 (1e-05 expected)"));
  EXPECT_THAT(message([](ModelConfig&) {}, DType::fp16),
              HasSubstr("llm.c's format has no fp16: export with --dtype fp32 or bf16"));
  EXPECT_EQ(message([](ModelConfig& c) { c.dropout = 0.1; }), "no error");
}

TEST(Llmc, RefusesDamagedFiles) {
  const std::string good = read_file(golden("bf16"));
  const auto message = [&](auto change) {
    std::string file = good;
    change(file);
    return error_message([&] { (void)parse_llmc(std::as_bytes(std::span(file)), "a.bin"); });
  };
  const auto with = [&](size_t field, int32_t value) {
    return message([&](std::string& file) { std::memcpy(file.data() + field * 4, &value, 4); });
  };
  EXPECT_EQ(message([](std::string&) {}), "no error");
  EXPECT_THAT(with(0, 7),
              AllOf(HasSubstr("a.bin holds no model"), HasSubstr("begins with the number 20240326, not 7")));
  EXPECT_THAT(with(0, 20240803), HasSubstr("a.bin is an llm.c checkpoint of Llama, which is not read"));
  EXPECT_THAT(with(1, 1), HasSubstr("of version 1: 3 (fp32) or 5 (bf16) expected"));
  EXPECT_THAT(with(1, 3),
              HasSubstr("a.bin has 22660 bytes, and its header says 44296: it is truncated, copy it again"));
  EXPECT_THAT(with(2, 0), HasSubstr("0 positions"));
  EXPECT_THAT(with(3, 129), HasSubstr("129 tokens padded to 128"));
  EXPECT_THAT(with(4, -1), HasSubstr("-1 layers"));
  EXPECT_THAT(with(4, 2'000'000'000), HasSubstr("a.bin: model.layers is 2000000000: expected 1 to"));
  EXPECT_THAT(with(5, 4), HasSubstr("a.bin: hidden_size 18 is not divisible by 4 heads"));
  EXPECT_THAT(with(6, 2'147'483'646), HasSubstr("a.bin: model.hidden_size is 2147483646"));
  EXPECT_THAT(with(7, 2'147'483'647), HasSubstr("it is truncated"));
  EXPECT_THAT(with(7, 61), HasSubstr("it is not what llm.c wrote"));
  EXPECT_THAT(message([](std::string& file) { file.pop_back(); }), HasSubstr("it is truncated"));
  EXPECT_THAT(message([](std::string& file) { file += '\0'; }), HasSubstr("it is not what llm.c wrote"));
  EXPECT_THAT(message([](std::string& file) { file.resize(1000); }), HasSubstr("1000 bytes, and its header has 1024"));
  for (const size_t bytes : {0, 3})
    EXPECT_THAT(message([&](std::string& file) { file.resize(bytes); }), HasSubstr("a.bin holds no model"));
  EXPECT_THAT(message([](std::string& file) { file = "GGUF" + file; }),
              HasSubstr("is a GGUF file, which is written but not read"));
  EXPECT_THAT(
      message([](std::string& file) { file = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n"; }),
      HasSubstr("Git LFS pointer"));
}

// Whatever the header says, it is an error, or a file of exactly this size.
TEST(Llmc, AnyHeaderIsAnErrorOrFits) {
  std::mt19937 random(5);
  const std::string good = read_file(golden("bf16"));
  constexpr std::array<int32_t, 10> kValues = {INT32_MIN, -1, 0, 1, 2, 3, 127, 128, 1 << 20, INT32_MAX};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    for (int changes = 0; changes < 1 + round % 3; ++changes)
      std::memcpy(file.data() + 4 * (1 + random() % 7), &kValues[random() % kValues.size()], 4);
    try {
      const LlmcHeader header = parse_llmc(std::as_bytes(std::span(file)), "a.bin");
      ASSERT_EQ(llmc_bytes(header), std::ssize(file));
      ++accepted;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 0);  // more or fewer heads of the same width
}

TEST(Llmc, ListsWeightsThatDoNotFit) {
  std::vector<ParameterSpec> wanted = open_folder(golden_folder("gpt2_tied")).parameters;
  wanted[0].shape[0] += 1;
  wanted[1].name = "embedding.other";
  EXPECT_THAT(
      error_message([&] { LlmcWeights(golden("fp32")).check(wanted); }),
      AllOf(HasSubstr("missing from it: embedding.other"), HasSubstr("not in this model: embedding.position.weight"),
            HasSubstr("of another shape: embedding.token.weight [61, 18] instead of [62, 18]")));
}

TEST(Llmc, OverwritesNothing) {
  const TemporaryDirectory folder;
  const OpenModel m = open_folder(golden_folder("gpt2_tied"));
  write_file(folder / "there.bin", "a");
  EXPECT_THAT(error_message([&] { export_llmc(folder / "there.bin", *m.weights, m.model, DType::fp32); }),
              HasSubstr("already exists"));
  EXPECT_EQ(read_file(folder / "there.bin"), "a");
}

}  // namespace
}  // namespace partita::internal
