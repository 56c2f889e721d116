// Every error is a single line with exit code 1 (2 for wrong usage), and nothing is overwritten or lost.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mount.h>

#include <sstream>

#include "partita/base/file.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

void expect_error(const Result& r, const testing::Matcher<std::string>& message, int code = 1) {
  EXPECT_EQ(r.code, code) << r.output << r.error;
  EXPECT_THAT(r.error, message);
}

TEST(Usage, ExitCodes) {
  expect_error(partita({}), AllOf(HasSubstr("a command is missing"), HasSubstr("  train ")), 2);
  expect_error(partita({"trian"}), HasSubstr("did you mean 'train'?"), 2);
  expect_error(partita({"train"}), HasSubstr("train needs CONFIG"), 2);
  expect_error(partita({"launch", "-n", "2"}), HasSubstr("no command"), 2);
  expect_error(partita({"launch", "-n", "0", "--", "train", SmallRun::get().config()}), HasSubstr("at least 1"), 2);
  for (const char* command : {"train", "launch", "tokenize", "tokenizer", "dataset", "generate", "eval", "import",
                              "export", "plot", "checkpoint", "bench"}) {
    const Result r = partita({command, "--help"});
    EXPECT_EQ(r.code, 0) << command;
    EXPECT_GT(r.output.size(), 200U) << command;
    EXPECT_EQ(r.error, "") << command;
    EXPECT_EQ(partita({"help", command}).output, r.output);
  }
  EXPECT_THAT(partita({"--version"}).output, HasSubstr("partita 0."));
  EXPECT_EQ(partita({"version"}).output, partita({"--version"}).output);
}

// A command for one process would do its work, and write its files, once per rank.
TEST(Usage, LaunchIsForCommandsOfSeveralRanks) {
  const TemporaryDirectory folder;
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"plot", folder.path().string()},
           {"generate", folder.path().string()},
           {"dataset", "inspect", (folder / "x").string()},
           {"tokenizer", "train", "--input", SmallRun::get().text().string(), "--output", (folder / "t.json").string()},
           {"export", folder.path().string(), (folder / "out").string()}}) {
    std::vector<std::string> words = {"launch", "-n", "2", "--"};
    words.insert(words.end(), command.begin(), command.end());
    expect_error(
        partita(words),
        HasSubstr(fmt::format("launch: '{0}' runs in one process, and launch is for train, eval and bench: run "
                              "'partita {0} ...' without launch",
                              command[0])),
        2);
  }
  expect_error(partita({"launch", "-n", "2", "--", "train", "--help"}), HasSubstr("run 'partita train --help'"), 2);
  expect_error(partita({"launch", "-n", "2", "--", "./nowhere"}),
               HasSubstr("launch: ./nowhere cannot be run: No such file or directory"), 2);
  expect_error(partita({"launch", "-n", "2", "--", folder.path().string()}), HasSubstr("is a folder"), 2);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Usage, HelpShowsTheFormOfACommand) {
  const Result merge = partita({"dataset", "merge", "--help"});
  EXPECT_THAT(merge.output, HasSubstr("Usage: partita dataset merge OUT IN... [OPTIONS]\n"));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"dataset", "merge"}, {"tokenize"}, {"tokenizer", "train"}, {"plot"}, {"train"}}) {
    std::vector<std::string> words = command;
    words.emplace_back("--help");
    EXPECT_THAT(partita(words).output, testing::Not(HasSubstr("\n\n\n"))) << command.back();
  }
}

TEST(Configuration, UnknownKeysAndValuesNameTheNearest) {
  const std::string config = SmallRun::get().config();
  // Wrong usage on the command line, an error in a file.
  expect_error(partita({"train", config, "--parallel.zero_stag=3"}), HasSubstr("zero_stage"), 2);
  expect_error(partita({"train", config, "--paralel.zero_stage=3"}), HasSubstr("parallel"), 2);
  expect_error(partita({"train", config, "--precision.compute=bf32"}), HasSubstr("bf16"), 2);
  expect_error(partita({"train", config, "--parallel.zero_stage=4"}), HasSubstr("at most 3"), 2);
  // A misspelt section is the nearest section, not another one with that key.
  expect_error(partita({"train", config, "--chekpoint.every=5"}), HasSubstr("'checkpoint.every'"), 2);
  expect_error(partita({"train", config, "--optimiser.kind=adamw"}), HasSubstr("'optimizer.kind'"), 2);
  expect_error(partita({"train", config, "--trian.seed=3"}), HasSubstr("'train.seed'"), 2);
  expect_error(partita({"train", config, "--train.steps=many"}), HasSubstr("train.steps"), 2);
  expect_error(partita({"train", config, "--train.steps"}),
               HasSubstr("train.steps has no value: write --train.steps=N"), 2);
  expect_error(partita({"launch", "-n", "2", "--", "train", config, "--train.stepz=3"}), HasSubstr("train.steps"), 2);
  const TemporaryDirectory folder;
  write_file(folder / "wrong.toml", "[train]\nstepz = 3\n");
  expect_error(partita({"train", (folder / "wrong.toml").string()}), HasSubstr("wrong.toml:2: unknown key"));
  expect_error(partita({"train", "/nowhere/a.toml"}), HasSubstr("/nowhere/a.toml"));
}

TEST(Configuration, DevicesThatAreNotThere) {
  const TemporaryDirectory folder;
  const std::string config = SmallRun::get().config();
  expect_error(partita({"train", config, "--train.device=gpu"}), AllOf(HasSubstr("train.device"), HasSubstr("cuda")),
               2);
  expect_error(partita({"eval", "runs/x", "--data", "x", "--device", "gpu"}), HasSubstr("--device"), 2);
  expect_error(partita({"generate", "runs/x", "--device", "gpu"}), HasSubstr("--device"), 2);
  // More ranks than any machine has GPUs; and, in a build for CPUs, any at all.
  const Result r = partita(train_command(9, folder / "run", {"--train.device=cuda", "--train.global_batch=18"}));
  expect_error(r, HasSubstr("use device cpu"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(Configuration, KeysOfGpusOnTheCpu) {
  const TemporaryDirectory folder;
  const auto error = [&](const char* key, const char* message) {
    expect_error(partita(train_command(1, folder / "run", {std::string("--train.") + key, "--train.device=cpu"})),
                 HasSubstr(message));
  };
  error("tune_matmul=true", "kernels.tune_matmul is true on the CPU");
  error("cuda_graph=true", "kernels.cuda_graph is true on the CPU");
  error("offload_optimizer=true", "memory.optimizer is \"host\" on the CPU");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Configuration, IsPrintedWithItsSources) {
  const Result r = partita({"train", SmallRun::get().config(), "--print-config", "--parallel.zero_stage=3"});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.output, AllOf(HasSubstr("zero_stage = 3"), HasSubstr("command line"), HasSubstr("small.toml:2"),
                              HasSubstr("default")));
  // What is printed is a configuration, and the same one.
  const TemporaryDirectory folder;
  const auto values = [](const std::string& text) {
    std::string out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) out += line.substr(0, line.find("  #")) + "\n";
    return out;
  };
  write_file(folder / "again.toml", r.output);
  const Result again = partita({"train", (folder / "again.toml").string(), "--print-config"});
  EXPECT_EQ(again.code, 0) << again.error;
  EXPECT_EQ(values(again.output), values(r.output));
  EXPECT_THAT(again.output, HasSubstr("again.toml:2"));
}

TEST(Configuration, ShapesAndBatchesThatDoNotDivide) {
  const TemporaryDirectory folder;
  expect_error(partita(train_command(1, folder / "a", {"--model.hidden_size=100", "--model.heads=12"})),
               AllOf(HasSubstr("100"), HasSubstr("96 or 108")));
  const Result r = partita(train_command(2, folder / "b", {"--train.global_batch=10"}));
  expect_error(r, AllOf(HasSubstr("global_batch 10"), HasSubstr("8 or 12")));
  EXPECT_EQ(r.error.find("global_batch 10"), r.error.rfind("global_batch 10")) << "said once, not by every rank";
  expect_error(partita(train_command(1, folder / "c", {"--train.sequence_length=64"})), HasSubstr("max_length"));
  expect_error(partita(train_command(1, folder / "d", {"--parallel.tensor=2"})), HasSubstr("tensor"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Tokenize, EmptyAndInvalidInput) {
  const TemporaryDirectory folder;
  const auto tokenize = [&](const fs::path& input, std::vector<std::string> more = {}) {
    std::vector<std::string> command = {
        "tokenize", "--input",         input.string(),           "--tokenizer", SmallRun::get().tokenizer().string(),
        "--quiet",  "--output-prefix", (folder / "out").string()};
    command.insert(command.end(), more.begin(), more.end());
    return partita(command);
  };
  write_file(folder / "empty.jsonl", "");
  expect_error(tokenize(folder / "empty.jsonl"), HasSubstr("no document with text"));
  write_file(folder / "bad.jsonl", "{\"text\": \"good\"}\n{\"text\": \"a\xff\"}\n");
  expect_error(tokenize(folder / "bad.jsonl"), AllOf(HasSubstr("bad.jsonl"), HasSubstr("UTF-8")));
  write_file(folder / "broken.jsonl", "{\"text\": \"good\"}\n{\"text\": \n");
  expect_error(tokenize(folder / "broken.jsonl"), HasSubstr("broken.jsonl:2"));
  expect_error(tokenize(folder / "missing.jsonl"), HasSubstr("missing.jsonl"));
  // A file that is empty among others is said, and what stands for the byte order is no text.
  write_file(folder / "mark.txt",
             "\xEF\xBB\xBF"
             "the river");
  write_file(folder / "plain.txt", "the river");
  const auto lengths = [&](const char* name) {
    const Result r = tokenize(folder / name, {"--input", (folder / "empty.jsonl").string()});
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr("empty.jsonl is empty"));
    const std::string bytes = read_file(folder / "out_text_document.bin");
    for (const char* end : {".bin", ".idx"}) fs::remove((folder / "out_text_document").string() + end);
    return bytes;
  };
  EXPECT_EQ(lengths("mark.txt"), lengths("plain.txt"));
  EXPECT_FALSE(fs::exists(folder / "out_text_document.idx"));
  EXPECT_FALSE(fs::exists(folder / "out_text_document.bin"));
  EXPECT_EQ(tokenize(folder / "broken.jsonl", {"--bad-lines", "skip"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "out_text_document.idx"));
}

TEST(Tokenizer, SpecialTokensThatAFileCannotHold) {
  const TemporaryDirectory folder;
  const auto train = [&](std::vector<std::string> names) {
    std::vector<std::string> command = {"tokenizer",       "train", "--input",  SmallRun::get().text().string(),
                                        "--vocab-size",    "300",   "--output", (folder / "t.json").string(),
                                        "--special-tokens"};
    command.insert(command.end(), names.begin(), names.end());
    return partita(command);
  };
  expect_error(train({"X", "X"}), HasSubstr("twice"));
  expect_error(train({"a"}), HasSubstr("as a token of the text"));
  expect_error(train({"a\xff"}), HasSubstr("UTF-8"));
  EXPECT_FALSE(fs::exists(folder / "t.json"));
  EXPECT_EQ(train({"<|endoftext|>", "<|pad|>"}).code, 0);
}

TEST(TokenFiles, TruncatedAndDamaged) {
  const TemporaryDirectory folder;
  const fs::path prefix = folder / "copy", bin = folder / "copy.bin", idx = folder / "copy.idx";
  const auto reset = [&] {
    for (const char* end : {".bin", ".idx"})
      write_file(prefix.string() + end, read_file(SmallRun::get().prefix().string() + end));
  };
  const auto train = [&](int ranks) {
    return partita(train_command(ranks, folder / "run", {"--data.path=" + prefix.string()}));
  };
  reset();
  write_file(bin, read_file(bin).substr(0, 1001));
  for (int ranks : {1, 2}) expect_error(train(ranks), AllOf(HasSubstr("copy.bin"), HasSubstr("1001")));
  reset();
  std::string index = read_file(idx);
  index[40] = static_cast<char>(index[40] ^ 0x55);
  write_file(idx, index);
  expect_error(train(1), HasSubstr("copy.idx"));
  fs::remove(idx);
  expect_error(train(1), HasSubstr("copy.idx"));
  EXPECT_FALSE(fs::exists(folder / "run" / "checkpoints"));
}

TEST(Checkpoints, OfAnotherModelAreRefused) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  ASSERT_EQ(partita(train_command(1, run)).code, 0);
  const std::string before = read_file(run / "metrics.jsonl");
  expect_error(partita(train_command(2, run, {"--model.hidden_size=32", "--train.steps=20"})),
               AllOf(HasSubstr("step-00000012"), HasSubstr("hidden_size is 28 there and 32 here")));
  expect_error(partita(train_command(1, run, {"--model.layers=4", "--train.steps=20"})),
               HasSubstr("layers is 3 there and 4 here"));
  // The same shapes, another function.
  expect_error(partita(train_command(1, run, {"--model.heads=4", "--train.steps=20"})),
               AllOf(HasSubstr("heads is 2 there and 4 here")));
  expect_error(partita(train_command(1, run, {"--model.norm_epsilon=0.1", "--train.steps=20"})),
               HasSubstr("norm_epsilon"));
  EXPECT_EQ(read_file(run / "metrics.jsonl"), before);
  EXPECT_EQ(partita({"checkpoint", "verify", run.string()}).code, 0);
  // A new run does not write over an old one.
  expect_error(partita(train_command(1, run, {"--checkpoint.resume=never"})), HasSubstr("run.directory"));
  EXPECT_EQ(read_file(run / "metrics.jsonl"), before);
  expect_error(partita({"generate", folder.path().string()}), HasSubstr("holds no model"));
}

TEST(Checkpoints, AFullDiskKeepsTheLastOne) {
  const TemporaryDirectory folder;
  const fs::path small = folder / "small";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=1600k") != 0)
    GTEST_SKIP() << "mounting a small file system needs root";
  struct Unmount {
    fs::path path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } const unmount{small};
  for (int ranks : {1, 2}) {
    const fs::path run = small / "run";
    fs::remove_all(run);
    // A checkpoint takes some 470 KB: two fit beside the log, three do not.
    const Result r = partita(train_command(ranks, run, {"--checkpoint.every=1", "--checkpoint.keep_last=0"}));
    expect_error(r, AllOf(HasSubstr("free"), HasSubstr("needed")));
    EXPECT_EQ(partita({"checkpoint", "verify", run.string()}).code, 0);
    EXPECT_TRUE(fs::exists(run / "checkpoints/step-00000001"));
    for (const auto& entry : fs::directory_iterator(run / "checkpoints"))
      EXPECT_EQ(entry.path().extension(), "") << entry.path();
    // With room made for one more the same run goes on to its end.
    fs::remove_all(run / "checkpoints/step-00000001");
    EXPECT_EQ(partita(train_command(ranks, run, {"--checkpoint.every=4", "--checkpoint.keep_last=1"})).code, 0);
  }
}

}  // namespace
}  // namespace partita::internal::test
