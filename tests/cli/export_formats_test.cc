// Files of llama.cpp and llm.c with the program: out of a run, in by any command, and error messages.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"
#include "tests/interop/gguf_reader.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const fs::path kGolden = PARTITA_SOURCE_DIR "/tests/golden";

double loss_of(const fs::path& model, const std::vector<std::string>& options = {}) {
  std::vector<std::string> command = {"eval",   model.string(),      "--data", SmallRun::get().prefix().string(),
                                      "--json", "--sequence-length", "32"};
  command.insert(command.end(), options.begin(), options.end());
  const Result r = partita(command);
  EXPECT_EQ(r.code, 0) << r.error;
  return json::parse(r.output)["loss"];
}

TEST(ExportFormats, OfARunWithItsTokenizer) {
  const TemporaryDirectory folder;
  const std::string run = (folder / "run").string(), gguf = (folder / "out/model.gguf").string(),
                    bin = (folder / "out/model.bin").string();
  Result r = partita(train_command(1, folder / "run", {"--train.steps=2", "--eval.every=0"}));
  ASSERT_EQ(r.code, 0) << r.error;

  r = partita({"export", run, gguf, "--dtype", "bf16"});
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_EQ(r.output, gguf + "\n");
  EXPECT_EQ(r.error, "");
  const GgufContents file = read_gguf(gguf);
  EXPECT_EQ(file.metadata["general.architecture"], "gpt2");
  EXPECT_EQ(file.metadata["tokenizer.ggml.model"], "gpt2");
  EXPECT_EQ(file.metadata["tokenizer.ggml.pre"], "gpt-2");
  const json tokenizer = json::parse(read_file(SmallRun::get().tokenizer()));
  EXPECT_EQ(file.metadata["tokenizer.ggml.merges"], tokenizer["model"]["merges"]);
  EXPECT_EQ(file.metadata["tokenizer.ggml.eos_token_id"], tokenizer["added_tokens"][0]["id"]);
  EXPECT_EQ(static_cast<int64_t>(file.metadata["tokenizer.ggml.tokens"].size()),
            file.tensors.at("token_embd.weight").dimensions[1]);

  // Into llm.c's format and back: the same model.
  ASSERT_EQ(partita({"export", run, bin}).code, 0);
  EXPECT_EQ(loss_of(bin), loss_of(run));
  ASSERT_EQ(partita({"import", bin, (folder / "back").string()}).code, 0);
  EXPECT_EQ(loss_of(folder / "back"), loss_of(run));
  ASSERT_EQ(partita({"export", (folder / "back").string(), (folder / "again").string(), "--format", "llmc"}).code, 0);
  EXPECT_TRUE(read_file(folder / "again") == read_file(bin));

  // And training goes on from it.
  write_file(
      folder / "train.toml",
      fmt::format("[model]\nfrom = \"{}\"\n[data]\npath = \"{}\"\ntokenizer = \"{}\"\nsplit = \"80,20,0\"\n[train]\n"
                  "steps = 1\nsequence_length = 32\nmicro_batch = 2\nglobal_batch = 2\ndevice = \"cpu\"\n"
                  "[eval]\nevery = 0\n[run]\ndirectory = \"{}\"\n",
                  bin, SmallRun::get().prefix().string(), SmallRun::get().tokenizer().string(),
                  (folder / "further").string()));
  r = partita({"train", (folder / "train.toml").string()});
  EXPECT_EQ(r.code, 0) << r.error;
}

TEST(ExportFormats, AModelWithoutTokenizerGivesAWarning) {
  const TemporaryDirectory folder;
  const Result r = partita({"export", (kGolden / "hf/llama_mha").string(), (folder / "model.gguf").string()});
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("model.gguf: the model has no tokenizer: llama.cpp takes and gives its ids alone"));
}

TEST(ExportFormats, RefusesWithWayOut) {
  const TemporaryDirectory folder;
  const std::string llama = (kGolden / "hf/llama_mha").string(), gpt2 = (kGolden / "hf/gpt2_tied").string(),
                    adapters = (kGolden / "hf/gpt2_tied_lora").string(), data = SmallRun::get().prefix().string();
  const auto in = [&](const char* name) { return (folder / name).string(); };
  const auto refusal = [](const std::vector<std::string>& command, int code = 1) {
    const Result r = partita(command);
    EXPECT_EQ(r.code, code) << r.error;
    return r.error;
  };
  EXPECT_THAT(refusal({"export", llama, in("x.bin")}), HasSubstr("llm.c's format has no Llama models"));
  EXPECT_THAT(refusal({"export", gpt2, in("x.bin"), "--dtype", "fp16"}), HasSubstr("--dtype fp32 or bf16"));
  EXPECT_THAT(refusal({"export", gpt2, in("x"), "--dtype", "q8_0"}), HasSubstr("ends in .gguf, or --format gguf"));
  EXPECT_THAT(refusal({"export", adapters, in("x.gguf"), "--base", gpt2}),
              HasSubstr("a GGUF file does not take alone: merge them into the model (--merge)"));
  EXPECT_THAT(refusal({"export", gpt2, in("x.gguf"), "--shard-size", "1"}, 2),
              HasSubstr("--shard-size is for Hugging Face"));
  EXPECT_THAT(refusal({"export", gpt2, in("x"), "--format", "onnx"}, 2), HasSubstr("auto, hf, gguf or llmc"));
  EXPECT_TRUE(fs::is_empty(folder.path()));

  write_file(in("there.gguf"), "a");
  EXPECT_THAT(refusal({"export", gpt2, in("there.gguf")}), HasSubstr("already exists: nothing is overwritten"));
  EXPECT_EQ(read_file(in("there.gguf")), "a");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", in("there.gguf"), "--data", data}, {"import", in("there.gguf"), in("run")}})
    EXPECT_THAT(refusal(command), AllOf(HasSubstr("there.gguf holds no model"), HasSubstr("llm.c")));
  EXPECT_FALSE(fs::exists(folder / "run"));
  EXPECT_THAT(refusal({"eval", (kGolden / "llmc/gpt2_tied_fp32.bin").string(), "--data", data, "--base", gpt2}),
              HasSubstr("--base (model.base) applies only to adapters"));
}

}  // namespace
}  // namespace partita::internal::test
