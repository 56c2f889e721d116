// Import and export of foreign model folders with the program: what an export preserves, and error messages.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const fs::path kGolden = PARTITA_SOURCE_DIR "/tests/golden";
// bf16 matrices with fp32 norms: a Llama of one layer with a vocabulary of 300.
const fs::path kMixed = kGolden / "mixed_types";

// Of each tensor of a model.safetensors: its type, shape and bytes.
std::map<std::string, std::string> tensors(const fs::path& folder) {
  const std::string file = read_file(folder / "model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const json header = json::parse(file.substr(8, length));
  std::map<std::string, std::string> found;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    found[name] =
        entry["dtype"].get<std::string>() + entry["shape"].dump() + file.substr(8 + length + begin, end - begin);
  }
  return found;
}

TEST(Interop, ImportAndExportKeepEachTensor) {
  const TemporaryDirectory folder;
  const auto expected = tensors(kMixed);
  ASSERT_EQ(expected.size(), 12U);
  ASSERT_EQ(partita({"import", kMixed.string(), (folder / "run").string()}).code, 0);
  ASSERT_EQ(partita({"export", (folder / "run").string(), (folder / "out").string()}).code, 0);
  EXPECT_EQ(tensors(folder / "out"), expected);
  ASSERT_EQ(partita({"export", kMixed.string(), (folder / "direct").string()}).code, 0);
  EXPECT_EQ(tensors(folder / "direct"), expected);
}

// Checkpoints of FSDP and Megatron-LM become runs, and are evaluated as they are.
TEST(Interop, ImportsCheckpointsOfOtherTrainers) {
  const TemporaryDirectory folder;
  const fs::path trainers = kGolden / "trainers";
  const auto import = [&](const std::string& from, const std::string& to, const std::string& config) {
    std::vector<std::string> command = {"import", (trainers / from).string(), (folder / to).string()};
    if (!config.empty()) command.insert(command.end(), {"--config", (trainers / config).string()});
    const Result r = partita(command);
    ASSERT_EQ(r.code, 0) << r.error;
    EXPECT_EQ(r.error, "");
    ASSERT_EQ(partita({"export", (folder / to).string(), (folder / (to + "-out")).string()}).code, 0);
  };
  import("titan", "titan", "");
  import("torch_dist", "torch_dist", "llama/config.json");
  import("ranks", "ranks", "llama");
  import("dcp_2", "dcp_2", "llama");
  const auto expected = tensors(trainers / "llama");
  for (const char* name : {"titan-out", "torch_dist-out", "ranks-out"}) EXPECT_EQ(tensors(folder / name), expected);
  for (const auto& [name, tensor] : tensors(folder / "dcp_2-out")) EXPECT_THAT(tensor, testing::StartsWith("BF16"));

  const auto refused = [&](const std::vector<std::string>& command) {
    const Result r = partita(command);
    EXPECT_EQ(r.code, 1);
    return r.error;
  };
  const std::string run = (folder / "none").string();
  EXPECT_THAT(refused({"import", (trainers / "dcp_2").string(), run}),
              HasSubstr("does not say which model it holds: put the model's config.json into it, or import it with "
                        "that of another place (partita import --config config.json"));
  EXPECT_THAT(refused({"import", (trainers / "dcp_2").string(), run, "--config", (trainers / "gpt2").string()}),
              HasSubstr("holds no gpt2 under names that are known"));
  EXPECT_THAT(refused({"import", (trainers / "llama").string(), run, "--config", (trainers / "gpt2").string()}),
              HasSubstr("--config applies only to a checkpoint of torch.distributed.checkpoint or Megatron-LM"));
  EXPECT_FALSE(fs::exists(run));
}

// Two ranks that each read their part of the weights train as from the same model of transformers.
TEST(Interop, RanksReadTheirPartsOfOtherTrainersCheckpoints) {
  const TemporaryDirectory folder;
  std::string tokens, index("MMIDIDX\0\0", 9);
  constexpr int32_t kTokens = 400;
  for (int32_t i = 0; i < kTokens; ++i) tokens += {static_cast<char>(i * i % 21), '\0'};
  const auto add = [&](auto value) { index.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(uint64_t{1}), add(uint8_t{8}), add(uint64_t{1}), add(uint64_t{2});
  add(kTokens), add(int64_t{0}), add(int64_t{0}), add(int64_t{1});
  write_file(folder / "tokens.bin", tokens);
  write_file(folder / "tokens.idx", index);
  write_file(
      folder / "train.toml",
      fmt::format("[data]\npath = \"{}\"\nsplit = \"100,0,0\"\n[train]\nsteps = 2\nsequence_length = 8\n"
                  "micro_batch = 2\nglobal_batch = 4\ndevice = \"cpu\"\n[checkpoint]\nevery = 0\n[eval]\nevery = 0\n"
                  "[parallel]\nzero_stage = 3\n",
                  (folder / "tokens").string()));
  const auto train = [&](const std::string& model, const std::string& tensor) {
    const fs::path run = folder / (model + tensor);
    const Result r = partita({"launch", "-n", "2", "--", "train", (folder / "train.toml").string(),
                              "--model.from=" + (kGolden / "trainers" / model).string(),
                              "--run.directory=" + run.string(), "--parallel.tensor=" + tensor});
    EXPECT_EQ(r.code, 0) << r.error;
    return metrics(run);
  };
  for (const char* tensor : {"1", "2"}) {
    const auto expected = train("llama", tensor);
    ASSERT_EQ(expected.size(), 2U);
    EXPECT_EQ(train("titan", tensor), expected);
    EXPECT_EQ(train("torch_dist", tensor), train("ranks", tensor));
  }
}

// Trained from such a model, also resumed on the way, a run knows the types, and what lies next to the model.
TEST(Interop, ARunFromAModelIsExportedAsThatModelIs) {
  const TemporaryDirectory folder;
  fs::copy(kMixed, folder / "model");
  write_file(folder / "model/tokenizer_config.json",
             R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"})");
  write_file(folder / "model/chat_template.jinja", "{{ messages }}");
  write_file(folder / "model/generation_config.json", R"({"eos_token_id": [0, 289], "top_p": 0.9})");
  const std::string run = (folder / "run").string();
  write_file(folder / "train.toml", fmt::format("[model]\nfrom = \"{}\"\n[data]\npath = \"{}\"\nsplit = \"80,20,0\"\n"
                                                "[train]\nsteps = 4\nsequence_length = 32\nmicro_batch = 2\n"
                                                "global_batch = 2\ndevice = \"cpu\"\n[checkpoint]\nevery = 2\n"
                                                "[eval]\nevery = 0\n[run]\ndirectory = \"{}\"\n",
                                                (folder / "model").string(), SmallRun::get().prefix().string(), run));
  for (const char* steps : {"--train.steps=2", "--train.steps=4"}) {
    const Result r = partita({"train", (folder / "train.toml").string(), steps});
    ASSERT_EQ(r.code, 0) << r.error;
  }
  const Result exported = partita({"export", run, (folder / "out").string()});
  ASSERT_EQ(exported.code, 0) << exported.error;
  const auto before = tensors(kMixed), after = tensors(folder / "out");
  for (const auto& [name, tensor] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    const size_t type_and_shape = tensor.find(']') + 1;
    EXPECT_EQ(after.at(name).substr(0, type_and_shape), tensor.substr(0, type_and_shape)) << name;
    EXPECT_NE(after.at(name), tensor) << name;
  }
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    EXPECT_EQ(read_file(folder / "out" / name), read_file(folder / "model" / name)) << name;
  const json generation = json::parse(read_file(folder / "out/generation_config.json"));
  EXPECT_EQ(generation["eos_token_id"], (json{0, 289}));
  EXPECT_EQ(generation["top_p"], 0.9);
}

TEST(Interop, ARotaryModelIsLengthenedOnRequest) {
  const TemporaryDirectory folder;
  const std::vector<std::string> longer = {"--model.from=" + kMixed.string(),
                                           "--model.layers=1",
                                           "--model.hidden_size=16",
                                           "--model.heads=2",
                                           "--train.sequence_length=96",
                                           "--train.steps=1",
                                           "--eval.every=0",
                                           "--checkpoint.every=0",
                                           "--model.dropout=0",
                                           "--model.embedding_dropout=0"};
  const Result refused = partita(train_command(1, folder / "short", longer));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error, HasSubstr("train.sequence_length 96 is more than model.max_length 32"));
  auto raised = longer;
  raised.emplace_back("--model.max_length=96");
  const Result r = partita(train_command(1, folder / "long", raised));
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("model.max_length is 96, and 64 in"));
  ASSERT_EQ(partita({"export", (folder / "long").string(), (folder / "out").string()}).code, 0);
  EXPECT_EQ(json::parse(read_file(folder / "out/config.json"))["max_position_embeddings"], 96);
}

std::string refusal(const std::vector<std::string>& command) {
  const Result r = partita(command);
  EXPECT_EQ(r.code, 1) << r.error;
  return r.error;
}

TEST(Interop, RefusesWithFileAndWayOut) {
  const TemporaryDirectory folder;
  const std::string data = SmallRun::get().prefix().string(), model = (folder / "model").string();
  fs::copy(kMixed, folder / "model");
  const auto eval = [&](const std::string& path) { return refusal({"eval", path, "--data", data}); };
  EXPECT_THAT(eval("no-org/no-model"), HasSubstr("hf download no-org/no-model --local-dir models/no-model"));
  EXPECT_THAT(refusal({"eval", model, "--data", data, "--base", "x"}),
              HasSubstr("--base (model.base) applies only to adapters, and " + model + " has none"));

  json config = json::parse(read_file(kMixed / "config.json"));
  config["hidden_size"] = nullptr;
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  std::string text = config.dump();
  write_file(folder / "model/config.json",
             text.replace(text.find("\"hidden_size\":null"), 18, "\"hidden_size\":" + deep));
  EXPECT_THAT(eval(model), AllOf(HasSubstr("model/config.json"), HasSubstr("nested more than 64 deep")));
  config["hidden_size"] = 16;
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
  write_file(folder / "model/config.json", config.dump());
  EXPECT_THAT(eval(model), AllOf(HasSubstr("quantization_config is"), HasSubstr("dequantize them with transformers")));

  fs::remove(folder / "model/config.json");
  ASSERT_EQ(::mkfifo((folder / "model/config.json").c_str(), 0600), 0);
  EXPECT_THAT(eval(model), HasSubstr("is not a regular file"));
  fs::remove(folder / "model/config.json");
  write_file(folder / "model/config.json", read_file(kMixed / "config.json"));
  write_file(folder / "model/model.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 24416\n");
  EXPECT_THAT(eval(model), AllOf(HasSubstr("model.safetensors is a Git LFS pointer"), HasSubstr("git lfs pull")));

  fs::copy(kGolden / "hf/gpt2_tied_lora", folder / "adapter");
  json adapter = json::parse(read_file(folder / "adapter/adapter_config.json"));
  adapter["init_lora_weights"] = "pissa";
  write_file(folder / "adapter/adapter_config.json", adapter.dump());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", (folder / "adapter").string(), "--data", data, "--base",
                                 (kGolden / "hf/gpt2_tied").string()},
        {"export", (folder / "adapter").string(), (folder / "x").string(), "--merge", "--base",
         (kGolden / "hf/gpt2_tied").string()}})
    EXPECT_THAT(refusal(command), HasSubstr("init_lora_weights is \"pissa\""));
  EXPECT_FALSE(fs::exists(folder / "x"));
}

}  // namespace
}  // namespace partita::internal::test
