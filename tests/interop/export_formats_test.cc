// Whole models from one format to another (model_transfer.h): files of llama.cpp and llm.c.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/interop/model_source.h"
#include "partita/interop/model_transfer.h"
#include "tests/interop/gguf_reader.h"
#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kLlmc = fs::path(PARTITA_SOURCE_DIR) / "tests/golden/llmc";

TEST(ExportFormats, TheNameSaysTheFormatUnlessItIsGiven) {
  using enum ExportFormat;
  EXPECT_EQ(export_format("out/model.gguf", automatic), gguf);
  EXPECT_EQ(export_format("out/model.bin", automatic), llmc);
  EXPECT_EQ(export_format("out/model.GGUF", automatic), gguf);
  EXPECT_EQ(export_format("out/model.Bin", automatic), llmc);
  EXPECT_EQ(export_format("out/model", automatic), hf);
  EXPECT_EQ(export_format("out.gguf/model", automatic), hf);
  EXPECT_EQ(export_format("gguf", automatic), hf);
  EXPECT_EQ(export_format("out/model.gguf", hf), hf);
  EXPECT_EQ(export_format("out/model", gguf), gguf);
}

TEST(ExportFormats, AFileOfLlmcGoesThroughARun) {
  for (const char* name : {"gpt2_tied_fp32.bin", "gpt2_tied_bf16.bin"}) {
    const TemporaryDirectory folder;
    const fs::path checkpoint = import_model(kLlmc / name, folder / "run");
    EXPECT_EQ(checkpoint, folder / "run/checkpoints/step-00000000");
    EXPECT_TRUE(verify_checkpoint(checkpoint).empty());
    export_model(folder / "run", folder / "out.bin", {});
    EXPECT_TRUE(read_file(folder / "out.bin") == read_file(kLlmc / name)) << name;
    export_model(kLlmc / name, folder / "hf", {});  // and without one, into another format
    EXPECT_EQ(open_model(folder / "hf").model, open_model(kLlmc / name).model);
  }
}

TEST(ExportFormats, ATokenizerNextToTheFileIsItsOwn) {
  const TemporaryDirectory folder;
  fs::copy(kLlmc / "gpt2_tied_fp32.bin", folder / "model.bin");
  EXPECT_EQ(open_model(folder / "model.bin").tokenizer, fs::path());
  write_file(folder / "tokenizer.json", "{}");
  EXPECT_EQ(open_model(folder / "model.bin").tokenizer, folder / "tokenizer.json");
}

// What the merged model has in a Hugging Face folder, it has in both files.
TEST(ExportFormats, AdaptersAreMerged) {
  const TemporaryDirectory folder;
  const fs::path adapters = golden_folder("gpt2_tied_lora"), base = golden_folder("gpt2_tied");
  const ExportOptions options{.merge = true, .base = base};
  export_model(adapters, folder / "hf", options);
  export_model(adapters, folder / "model.gguf", options);
  export_model(adapters, folder / "model.bin", options);
  export_model(folder / "hf", folder / "direct.gguf", {});
  export_model(folder / "hf", folder / "direct.bin", {});
  EXPECT_EQ(read_gguf(folder / "model.gguf").tensors.size(), 2U + 2 * 12 + 2);
  EXPECT_TRUE(read_file(folder / "model.gguf") == read_file(folder / "direct.gguf"));
  EXPECT_TRUE(read_file(folder / "model.bin") == read_file(folder / "direct.bin"));
  EXPECT_FALSE(read_file(folder / "model.bin") == read_file(kLlmc / "gpt2_tied_fp32.bin"));

  for (const char* name : {"alone.gguf", "alone.bin"}) {
    EXPECT_THAT(error_message([&] { export_model(adapters, folder / name, {.base = base}); }),
                AllOf(HasSubstr("holds adapters, which"), HasSubstr("(--merge)")));
    EXPECT_FALSE(fs::exists(folder / name));
  }
}

TEST(ExportFormats, TypesOfEachFormat) {
  const TemporaryDirectory folder;
  const fs::path model = golden_folder("gpt2_tied");
  EXPECT_THAT(error_message([&] { export_model(model, folder / "hf", {.q8_0 = true}); }),
              HasSubstr("q8_0 is a type of GGUF files"));
  EXPECT_THAT(error_message([&] { export_model(model, folder / "a.bin", {.dtype = DType::fp16}); }),
              HasSubstr("llm.c's format has no fp16"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  export_model(model, folder / "named", {.format = ExportFormat::gguf, .dtype = DType::bf16});
  EXPECT_EQ(read_gguf(folder / "named").tensors.at("token_embd.weight").type, 30U);
  // Types that llm.c does not have are widened.
  export_model(model, folder / "half", {.dtype = DType::fp16});
  export_model(folder / "half", folder / "half.bin", {});
  EXPECT_EQ(open_model(folder / "half.bin").stored_as, StoredTypes{.usual = ElementType::f32});
}

// A tokenizer of another model, or one that cannot be read, does not keep the weights back.
TEST(ExportFormats, ATokenizerThatDoesNotFitIsLeftOut) {
  const TemporaryDirectory folder;
  fs::copy(kLlmc / "gpt2_tied_fp32.bin", folder / "model.bin");
  for (const std::string& text : {std::string("{}"), read_file(kLlmc / "../tokenizer.json")}) {
    write_file(folder / "tokenizer.json", text);
    fs::remove(folder / "model.gguf");
    testing::internal::CaptureStderr();
    export_model(folder / "model.bin", folder / "model.gguf", {});
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("model.gguf: the file has no tokenizer: "), HasSubstr("tokenizer.json")));
    EXPECT_EQ(read_gguf(folder / "model.gguf").metadata["tokenizer.ggml.model"], "none");
  }
}

TEST(ExportFormats, NothingElseIsAModel) {
  const TemporaryDirectory folder;
  write_file(folder / "model.bin", "text");
  EXPECT_THAT(
      error_message([&] { (void)import_model(folder / "model.bin", folder / "run"); }),
      HasSubstr("model.bin holds no model: an llm.c checkpoint of GPT-2 (.bin), or the folder of a model expected"));
  write_file(folder / "model.bin", read_file(kLlmc / "gpt2_tied_fp32.bin").substr(0, 2000));
  EXPECT_THAT(error_message([&] { (void)import_model(folder / "model.bin", folder / "run"); }),
              HasSubstr("model.bin has 2000 bytes, and its header says 44296: it is truncated"));
  EXPECT_THAT(error_message([&] { (void)import_model(folder / "none.bin", folder / "run"); }), HasSubstr("none.bin"));
  EXPECT_FALSE(fs::exists(folder / "run"));
}

}  // namespace
}  // namespace partita::internal
