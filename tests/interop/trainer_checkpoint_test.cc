#include "partita/interop/trainer_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstring>
#include <random>

#include "partita/checkpoint/elements.h"
#include "partita/interop/megatron_args.h"
#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

fs::path trainers(const std::string& name) { return fs::path(PARTITA_SOURCE_DIR) / "tests/golden/trainers" / name; }

struct Case {
  std::string folder, model;  // of the same model from transformers
  fs::path config = {};
  bool padded = false, bf16 = false;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {{"dcp_1", "llama"},
                                         {"dcp_2", "llama", trainers("llama"), false, true},
                                         {"dcp_2_1", "gpt2"},
                                         {"titan", "llama"},
                                         {"torch_dist", "llama", {}, true},
                                         {"torch_dist/iter_0000100", "llama", trainers("llama/config.json")},
                                         {"torch_dist_numbered", "gpt2", {}, true},
                                         {"torch_dist_numbered", "gpt2", trainers("gpt2")},
                                         {"ranks", "llama", {}, true},
                                         {"ranks", "llama", trainers("llama")},
                                         {"ranks_virtual", "gpt2_deep", {}, true},
                                         {"ranks_virtual/iter_0000100", "gpt2_deep", trainers("gpt2_deep")},
                                         {"ranks_old", "gpt2", {}, true},
                                         {"ranks_old", "gpt2", trainers("gpt2")}};
  return list;
}

float rounded(float value) {
  std::array<std::byte, 2> bytes{};
  from_fp32(ElementType::bf16, std::span(&value, 1), bytes.data());
  to_fp32(ElementType::bf16, bytes.data(), 1, std::span(&value, 1));
  return value;
}

TEST(TrainerCheckpoint, HoldsEveryWeightOfTheModelOfTransformers) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.folder);
    ASSERT_TRUE(is_trainer_checkpoint(trainers(c.folder)));
    const ModelSource found = open_model(trainers(c.folder), {}, c.config), expected = open_model(trainers(c.model));
    EXPECT_TRUE(found.warnings.empty()) << found.warnings[0];
    EXPECT_FALSE(found.trained_here);
    EXPECT_EQ(found.model.vocab_size, c.padded ? 24 : 21);
    EXPECT_EQ(model_differences(found.model, expected.model), "");
    EXPECT_EQ(found.model.max_length, expected.model.max_length);
    EXPECT_EQ(found.stored_as, (StoredTypes{.usual = c.bf16 ? ElementType::bf16 : ElementType::f32}));
    const std::vector<ParameterSpec> parameters = parameter_specs(hf_parameters(found.model));
    found.weights->check(parameters);
    std::vector<ParameterSpec> theirs = parameter_specs(hf_parameters(expected.model));
    ASSERT_EQ(parameters.size(), theirs.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<float> a = read_all(*found.weights, parameters[i]), b = read_all(*expected.weights, theirs[i]);
      ASSERT_GE(a.size(), b.size());
      for (size_t e = 0; e < b.size(); ++e)
        ASSERT_EQ(a[e], c.bf16 ? rounded(b[e]) : b[e]) << parameters[i].name << " element " << e;
      for (size_t e = b.size(); e < a.size(); ++e) ASSERT_EQ(a[e], 9) << parameters[i].name << " element " << e;
    }
  }
}

// Small files may be anything in a folder that somebody else made; none is read without end.
TEST(TrainerCheckpoint, ReadsOnlyRegularSmallFiles) {
  const TemporaryDirectory folder;
  const auto error = [&](const char* name) { return error_message([&] { (void)open_model(folder / name); }); };
  for (const char* name : {"pipe", "zero", "large"}) fs::create_directory(folder / name);
  const char* tracker = "latest_checkpointed_iteration.txt";
  ASSERT_EQ(::mkfifo((folder / "pipe" / tracker).c_str(), 0600), 0);
  EXPECT_THAT(error("pipe"), HasSubstr("latest_checkpointed_iteration.txt: it is not a regular file"));
  fs::create_symlink("/dev/zero", folder / "zero" / tracker);
  EXPECT_THAT(error("zero"), HasSubstr("latest_checkpointed_iteration.txt: it is not a regular file"));
  write_file(folder / "large" / tracker, "1");
  fs::resize_file(folder / "large" / tracker, 1 << 30);
  EXPECT_THAT(error("large"), HasSubstr("has 1073741824 bytes, at most 1048576 expected"));

  fs::copy(trainers("torch_dist/iter_0000100"), folder / "megatron");
  const fs::path metadata = folder / "megatron/metadata.json";
  fs::remove(metadata);
  ASSERT_EQ(::mkfifo(metadata.c_str(), 0600), 0);
  EXPECT_THAT(error("megatron"), HasSubstr("metadata.json: it is not a regular file"));
  fs::remove(metadata);
  write_file(metadata, "{}");
  fs::resize_file(metadata, 1 << 30);
  EXPECT_THAT(error("megatron"), HasSubstr("metadata.json has 1073741824 bytes"));

  fs::copy(trainers("dcp_1"), folder / "dcp");
  write_file(folder / "dcp/.metadata", "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1\n");
  EXPECT_THAT(error("dcp"), AllOf(HasSubstr(".metadata is a Git LFS pointer")));
}

TEST(TrainerCheckpoint, TheAdviceAboutConfigJsonIsForEveryCommand) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "above");
  fs::copy(trainers("dcp_1"), folder / "above/dcp");
  fs::remove(folder / "above/dcp/config.json");
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "above/dcp"); }),
              AllOf(HasSubstr("does not say which model it holds: put the model's config.json into it, or import it"),
                    HasSubstr("(partita import --config config.json "), HasSubstr("/above/dcp RUN)")));
}

// A folder that holds the model in Hugging Face's files, too, is read as Hugging Face's.
TEST(TrainerCheckpoint, HuggingFacesFilesComeFirst) {
  const TemporaryDirectory folder;
  fs::copy(trainers("dcp_1"), folder / "both");
  fs::copy(trainers("llama"), folder / "both", fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  write_file(folder / "both/.metadata", "damaged");
  EXPECT_EQ(error_message([&] { (void)open_model(folder / "both"); }), "no error");
  EXPECT_THAT(error_message([&] { (void)open_model(folder / "both", {}, folder / "both/config.json"); }),
              HasSubstr(".metadata is refused"));
}

TEST(TrainerCheckpoint, ReadsAnyBox) {
  std::mt19937 random(3);
  for (const Case& c : cases()) {
    const ModelSource source = open_model(trainers(c.folder), {}, c.config);
    for (const ParameterSpec& p : parameter_specs(hf_parameters(source.model)))
      for (int round = 0; round < 20; ++round)
        expect_box_of_whole(*source.weights, p, random_box(random, whole_box(p.shape)));
  }
}

}  // namespace
}  // namespace partita::internal
