// `partita tokenize` and `partita dataset` from the command line: accepted and rejected input, and which files exist
// after they are killed.
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TokenizeCommand : public ShellTest {
 protected:
  void SetUp() override {
    fs::copy_file(SmallRun::get().text(), folder_ / "text.jsonl");
    fs::copy_file(SmallRun::get().tokenizer(), folder_ / "tokenizer.json");
  }
  void expect_error(const std::string& command, const testing::Matcher<std::string>& message, int code = 1) {
    const Result r = shell(command);
    EXPECT_EQ(r.code, code) << command << "\n" << r.error << r.output;
    EXPECT_THAT(r.error, message) << command;
  }
  std::string bytes(const std::string& prefix) {
    return read_file(folder_ / (prefix + "_text_document.bin")) + read_file(folder_ / (prefix + "_text_document.idx"));
  }
  std::vector<std::string> names_with(const std::string& beginning) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (const std::string name = entry.path().filename(); name.starts_with(beginning)) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(TokenizeCommand, InputOfEveryKindGivesTheSameFiles) {
  must("partita tokenize --quiet --input text.jsonl --tokenizer tokenizer.json --output-prefix a");
  must(
      "gzip -k text.jsonl && partita tokenize --quiet --input text.jsonl.gz --tokenizer tokenizer.json --output-prefix "
      "b");
  must("partita tokenize --quiet --input - --tokenizer tokenizer.json --output-prefix c --workers 3 < text.jsonl");
  must("cat text.jsonl.gz | partita tokenize --quiet --input - --tokenizer tokenizer.json --output-prefix d");
  must(
      "partita tokenize --quiet --input <(head -n 50 text.jsonl) <(tail -n +51 text.jsonl) --format jsonl --tokenizer "
      "tokenizer.json --output-prefix e");
  for (const char* prefix : {"b", "c", "d", "e"}) EXPECT_TRUE(bytes(prefix) == bytes("a")) << prefix;
}

TEST_F(TokenizeCommand, MegatronsNamesWork) {
  must("partita tokenizer train --input text.jsonl --vocab-size 300 --output vocab.json");
  must("mv vocab.json gpt2-vocab.json && mv merges.txt gpt2-merges.txt");
  must("partita tokenize --quiet --input text.jsonl --tokenizer tokenizer.json --append-eod --output-prefix a");
  must(
      "partita tokenize --input text.jsonl --output-prefix b --vocab gpt2-vocab.json --merge-file gpt2-merges.txt "
      "--dataset-impl mmap --tokenizer-type GPT2BPETokenizer --append-eod --workers 2 --log-interval 100 --partitions "
      "2 --keep-sequential-samples --json-keys text");
  must(
      "partita tokenize --quiet --input text.jsonl --output-prefix c --tokenizer-type HuggingFaceTokenizer "
      "--tokenizer-model tokenizer.json --append-eod");
  EXPECT_TRUE(bytes("b") == bytes("a"));
  EXPECT_TRUE(bytes("c") == bytes("a"));
  const std::string command = "partita tokenize --input text.jsonl --output-prefix x ";
  expect_error(command, HasSubstr("no tokenizer: give --tokenizer PATH"), 2);
  expect_error(command + "--tokenizer tokenizer.json --vocab-file gpt2-vocab.json", HasSubstr("two tokenizers"), 2);
  expect_error(command + "--vocab-file gpt2-vocab.json", HasSubstr("--merge-file is missing"), 2);
  expect_error(command + "--tokenizer-type BertWordPieceCase --tokenizer tokenizer.json",
               HasSubstr("BertWordPieceCase is not read"), 2);
  expect_error(
      command + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-2-7b",
      AllOf(HasSubstr("meta-llama/Llama-2-7b does not exist"), HasSubstr("hf download meta-llama/Llama-2-7b")));
  expect_error(command + "--tokenizer tokenizer.json --dataset-impl lazy", HasSubstr("--dataset-impl lazy"), 2);
  expect_error(command + "--tokenizer tokenizer.json --split-sentences --lang klingon", HasSubstr("\"klingon\""));
  EXPECT_THAT(names_with("x"), ElementsAre());
}

TEST_F(TokenizeCommand, BadInputIsNamed) {
  const std::string with = " --quiet --tokenizer tokenizer.json --output-prefix x";
  must("printf '%s\\n' '{\"text\": \"a\"}' '' 'no' '{\"text\": \"b\"}' > bad.jsonl && gzip -k bad.jsonl");
  expect_error("partita tokenize --input bad.jsonl.gz" + with, HasSubstr("bad.jsonl.gz:3: byte 15: not JSON"));
  expect_error("partita tokenize --input - < bad.jsonl" + with, HasSubstr("standard input:3: byte 15: not JSON"));
  const Result skipped = shell("partita tokenize --input - --bad-lines skip < bad.jsonl" + with);
  EXPECT_EQ(skipped.code, 0);
  EXPECT_THAT(skipped.error, HasSubstr("skipped: standard input:3"));
  EXPECT_THAT(skipped.output, AllOf(HasSubstr("2 documents"), HasSubstr("1 bad documents skipped")));
  const std::string before = bytes("x");
  must("head -c 600 bad.jsonl.gz > cut.jsonl.gz; gzip -c text.jsonl | head -c 2000 > cut.jsonl.gz");
  expect_error("partita tokenize --input cut.jsonl.gz" + with, HasSubstr("cut.jsonl.gz: gzip data that is cut short"));
  must("bzip2 -k bad.jsonl 2> /dev/null || printf 'BZh91AY' > bad.jsonl.bz2");
  expect_error("partita tokenize --input bad.jsonl.bz2" + with,
               HasSubstr("is compressed by bzip2; expected text or JSON lines"));
  expect_error("partita tokenize --input - -" + with + " < bad.jsonl", HasSubstr("standard input is read once"));
  EXPECT_TRUE(bytes("x") == before) << "what was there stays";
}

TEST_F(TokenizeCommand, OutputsAreCheckedFirst) {
  const std::string with = " --quiet --input text.jsonl --tokenizer tokenizer.json --output-prefix ";
  must("partita tokenize" + with + "new/folder/x && partita dataset verify new/folder/x_text_document");
  expect_error("partita tokenize" + with + "new/",
               HasSubstr("new/ is a folder: give the beginning of a file name too"));
  expect_error("partita tokenize" + with + "new", HasSubstr("such as new/corpus"));
  expect_error("partita tokenize" + with + "text.jsonl/x", HasSubstr("cannot make the folder text.jsonl"));
  // A missing input leaves no folder behind.
  expect_error("partita tokenize --input no.jsonl --tokenizer tokenizer.json --output-prefix y/x",
               HasSubstr("no.jsonl: no such input file"));
  EXPECT_FALSE(fs::exists(folder_ / "y"));

  // Before anything is read: who opens this pipe waits for ever.
  must("mkfifo endless");
  for (const auto& [options, message] :
       std::vector<std::pair<std::string, std::string>>{{"--output new", "new is a folder"},
                                                        {"--output t.json --vocab-size 100", "use at least 257"},
                                                        {"--output t.json --vocab-size 99999999", "use at most"},
                                                        {"--output text.jsonl/t.json", "cannot make the folder"},
                                                        {"--output /proc/t.json", "cannot write /proc/t.json"},
                                                        {"--output endless/", "is a folder"}})
    expect_error("partita tokenizer train --input endless " + options, HasSubstr(message));
  expect_error("partita tokenizer train --input text.jsonl --output ./text.jsonl", HasSubstr("is an input"));
  must("partita tokenizer train --input text.jsonl --vocab-size 300 --output made/by/t.json && test -s made/by/t.json");
  // Token files belong to one tokenizer: it is not replaced.
  must("cp made/by/t.json before; mkdir gpt2; touch gpt2/merges.txt");
  expect_error("partita tokenizer train --input endless --output made/by/t.json",
               HasSubstr("made/by/t.json already exists: nothing is overwritten, give another name or remove it"));
  expect_error("partita tokenizer train --input endless --output gpt2/vocab.json",
               HasSubstr("gpt2/merges.txt already exists"));
  must("cmp before made/by/t.json && test ! -e gpt2/vocab.json");
}

TEST_F(TokenizeCommand, OtherFormatsAndMissingKeysAreNamed) {
  const std::string with = " --quiet --tokenizer tokenizer.json --output-prefix x";
  must("printf 'PAR1\\025\\004' > d.parquet");
  expect_error("partita tokenize --input d.parquet" + with,
               AllOf(HasSubstr("d.parquet is an Apache Parquet file"), HasSubstr("lines=True)\" d.parquet")));
  expect_error("cat d.parquet | partita tokenize --input -" + with,
               AllOf(HasSubstr("standard input is an Apache Parquet file"), HasSubstr("lines=True)\" FILE")));
  expect_error("partita tokenizer train --input d.parquet --output t.json", HasSubstr("an Apache Parquet file"));
  must("printf '%s\n' '{\"messages\": [], \"id\": 3}' > chat.jsonl");
  expect_error("partita tokenize --input chat.jsonl" + with,
               HasSubstr("no key \"text\", found \"messages\", \"id\": name it with --json-keys"));
}

// A line of 200 MB of zeros in 200 kilobytes: left out, counted and named; the rest is read.
TEST_F(TokenizeCommand, ABombIsSkipped) {
  must(
      "{ head -n 50 text.jsonl; head -c 200000000 /dev/zero; echo; tail -n +51 text.jsonl; } | gzip -1 > "
      "bomb.jsonl.gz");
  const Result r = shell(
      "partita tokenize --quiet --workers 1 --max-line 16 --input bomb.jsonl.gz --tokenizer "
      "tokenizer.json --output-prefix x");
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("skipped: bomb.jsonl.gz:51: byte "));
  EXPECT_THAT(r.error, HasSubstr("a line of 190.7 MiB, at most 16.0 MiB expected"));
  EXPECT_THAT(r.output, HasSubstr("1 too long, skipped (--max-line and --max-document set the limits)"));
  must("partita tokenize --quiet --input text.jsonl --tokenizer tokenizer.json --output-prefix y");
  EXPECT_TRUE(bytes("x") == bytes("y"));
  expect_error(
      "head -c 3000000 /dev/zero > z.txt; partita tokenize --quiet --max-document 2 --input z.txt --tokenizer "
      "tokenizer.json --output-prefix z",
      HasSubstr("no document with text (2.9 MiB, 0 empty documents, 0 bad ones, 1 too long, the first z.txt:1"));
}

TEST_F(TokenizeCommand, AFlippedByteIsFound) {
  must("partita tokenize --quiet --input text.jsonl --tokenizer tokenizer.json --output-prefix a");
  EXPECT_THAT(shell("partita dataset verify a_text_document").output, HasSubstr("all bytes have their checksums"));
  must(
      "cp a_text_document.bin whole && printf '\\1' | dd of=a_text_document.bin bs=1 seek=778 conv=notrunc 2> "
      "/dev/null");
  expect_error("partita dataset verify a_text_document", HasSubstr("a_text_document.bin: bytes 0 to "));
  expect_error("partita dataset merge m a_text_document", HasSubstr("do not have their checksum"));
  // A run that is told to looks too; without it, it cannot know.
  const std::string train = "partita train " + SmallRun::get().config() +
                            " --train.steps=1 --eval.every=0 --data.path=a_text_document --run.directory=run ";
  expect_error(train + "--data.verify=true", HasSubstr("do not have their checksum of a_text_document.sums"));
  must(train);
  must("rm -r run && mv whole a_text_document.bin && " + train + "--data.verify=true");
  // Files of other programs have none.
  must("rm -r run a_text_document.sums");
  EXPECT_THAT(shell("partita dataset verify a_text_document").output, HasSubstr("no checksums"));
  EXPECT_THAT(shell(train + "--data.verify=true").error, HasSubstr("data.verify: a_text_document.sums does not exist"));
}

// Ids that the model does not know are found before the first step, with checksums and without.
TEST_F(TokenizeCommand, TokensOfAnotherTokenizerAreSeenAtTheStart) {
  must("partita tokenizer train --quiet --input text.jsonl --vocab-size 500 --output large.json");
  must("partita tokenize --quiet --input text.jsonl --tokenizer large.json --append-eod --output-prefix l");
  const std::string train =
      "partita train " + SmallRun::get().config() + " --train.steps=1 --eval.every=0 --run.directory=run ";
  const auto message =
      AllOf(HasSubstr("l_text_document.bin holds the token "), HasSubstr("and the model knows 0 to 299"));
  expect_error(train + "--data.path=l_text_document", message);
  expect_error("rm l_text_document.sums; " + train + "--data.path=l_text_document", message);
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  // As many tokens, but others.
  must(
      "partita tokenizer train --quiet --input <(tac text.jsonl | rev) --format text --vocab-size 300 --output o.json");
  must("partita tokenize --quiet --input text.jsonl --tokenizer o.json --output-prefix o");
  EXPECT_THAT(shell(train + "--data.path=o_text_document").error,
              HasSubstr("o_text_document was written with another tokenizer (300 tokens)"));
}

TEST_F(TokenizeCommand, AKilledRunLeavesNoIndex) {
  must("mkfifo pipe");
  const std::string path = fs::path(PARTITA_PROGRAM).parent_path().string() + ":" + getenv("PATH");
  Process run(
      {"bash", "-c",
       "cd '" + folder_.path().string() + "' && { cat text.jsonl; sleep 60; } > pipe & cd '" + folder_.path().string() +
           "' && exec partita tokenize --input pipe --format jsonl --tokenizer tokenizer.json "
           "--output-prefix x"},
      {{"PATH", path}});
  // Its temporary file is there.
  ASSERT_TRUE(run.until([&] { return !names_with("x_text_document.bin.").empty(); }, std::chrono::seconds(60)));
  kill(run.pid(), SIGKILL);
  kill(-run.pid(), SIGKILL);
  EXPECT_EQ(run.end(std::chrono::seconds(60)).code, 128 + SIGKILL);
  EXPECT_EQ(names_with("x").size(), 1U);
  EXPECT_FALSE(fs::exists(folder_ / "x_text_document.idx"));
  expect_error("partita dataset verify x_text_document", HasSubstr("x_text_document.idx does not exist"));

  const Result again =
      shell("partita tokenize --quiet --input text.jsonl --tokenizer tokenizer.json --output-prefix x");
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.error, HasSubstr("removed 1 temporary file of x_text_document that a killed run left"));
  EXPECT_THAT(names_with("x"), ElementsAre("x_text_document.bin", "x_text_document.idx", "x_text_document.sums"));
}

// Ctrl-C and SIGTERM leave nothing, and say so in the exit code.
TEST_F(TokenizeCommand, AnInterruptedRunLeavesNothing) {
  must("mkfifo pipe");
  const std::string path = fs::path(PARTITA_PROGRAM).parent_path().string() + ":" + getenv("PATH");
  for (const int signal : {SIGINT, SIGTERM}) {
    Process run({"bash", "-c",
                 "cd '" + folder_.path().string() +
                     "' && exec 3<> pipe && exec partita tokenize "
                     "--input pipe --format jsonl --tokenizer tokenizer.json --output-prefix x"},
                {{"PATH", path}});
    ASSERT_TRUE(run.until([&] { return !names_with("x_text_document.bin.").empty(); }, std::chrono::seconds(60)));
    kill(run.pid(), signal);
    const Result r = run.end(std::chrono::seconds(60));
    EXPECT_EQ(r.code, 128 + signal);
    EXPECT_THAT(names_with("x"), ElementsAre());
  }
}

TEST_F(TokenizeCommand, DatasetsAreInspectedVerifiedAndMerged) {
  must("printf '%s\\n' '{\"text\": \"One. Two!\"}' '{\"text\": \"\"}' '{\"text\": \"Three\"}' > s.jsonl");
  must("partita tokenize --quiet --input s.jsonl --tokenizer tokenizer.json --split-sentences --output-prefix s");
  must("partita tokenize --quiet --input text.jsonl --tokenizer tokenizer.json --output-prefix t");
  const Result all = shell("partita dataset inspect s_text_sentence --tokenizer tokenizer.json");
  EXPECT_THAT(all.output, AllOf(HasSubstr("3 documents, 3 sequences"), HasSubstr("documents without sequences: 1"),
                                HasSubstr("in 2 sequences\nOne.\nTwo!\n--- document 1: 0 tokens\n--- document 2"),
                                HasSubstr("\nThree\n")));
  const Result last = shell("partita dataset inspect s_text_sentence --first 2 --documents 9223372036854775807");
  EXPECT_EQ(last.code, 0);
  EXPECT_THAT(last.output, AllOf(HasSubstr("--- document 2"), testing::Not(HasSubstr("--- document 1"))));
  expect_error("partita dataset inspect s_text_sentence --first 3", HasSubstr("has the documents 0 to 2"));
  must("partita dataset merge m s_text_sentence t_text_document s_text_sentence");
  EXPECT_THAT(shell("partita dataset verify m").output,
              AllOf(HasSubstr("126 documents"), HasSubstr("everything agrees")));
  must("mkdir parts && cp t_text_document.* parts && cp s_text_sentence.* parts && partita dataset merge n parts");
  EXPECT_THAT(shell("partita dataset inspect n --documents 0").output, HasSubstr("123 documents"));
  expect_error("partita dataset merge m m t_text_document", HasSubstr("is an input and would be replaced"));
  expect_error("partita dataset merge m", HasSubstr("partita dataset merge OUT IN..."), 2);
  expect_error("partita dataset merge", HasSubstr("partita dataset merge OUT IN..."), 2);
  expect_error("partita dataset merge a b --input c", HasSubstr("give one or the other"), 2);
  must("partita dataset merge --input s_text_sentence t_text_document --output-prefix deep/er/q");
  EXPECT_THAT(shell("partita dataset inspect deep/er/q --documents 0").output, HasSubstr("123 documents"));
  EXPECT_THAT(shell("partita dataset merge --help").output,
              AllOf(HasSubstr("OUT"), testing::Not(HasSubstr("--output-prefix"))));
  EXPECT_THAT(shell("partita dataset merge w t_text_document ./t_text_document").error,
              HasSubstr("t_text_document is merged more than once"));
  expect_error("mkdir none && partita dataset merge x none", HasSubstr("no token files"));
  expect_error("partita dataset merge x t_text_document missing", HasSubstr("missing.idx does not exist"));
  expect_error("partita dataset index s_text_sentence --sequence-length 1000 --output o",
               HasSubstr("one sample needs 1001"));
  expect_error("partita dataset index 0.5 s_text_sentence 0.5 t_text_document --sequence-length 2 --output o",
               HasSubstr("--samples is missing"));
  // The order of a whole epoch is written, all of its files or none.
  const Result order = shell("partita dataset index t_text_document --sequence-length 8 --samples 3 --output o1");
  EXPECT_THAT(order.output, AllOf(HasSubstr("whole epochs; a run of 3 reads the first 3")));
  expect_error("partita dataset index t_text_document --sequence-length 8 --output o1",
               HasSubstr("o1 already exists and is not empty"));
  for (const char* blocks : {"1", "2", "6"})
    expect_error(std::string("trap '' XFSZ; ulimit -f ") + blocks +
                     "; partita dataset index 0.5 t_text_document 0.5 m --samples 2000 --sequence-length 2 --output o2",
                 HasSubstr("cannot write o2"));
  EXPECT_EQ(shell("find o2 -type f").output, "");
  // A token that the tokenizer does not have.
  must("printf '\\377\\377' | dd of=t_text_document.bin conv=notrunc status=none");
  expect_error("partita dataset verify t_text_document --tokenizer tokenizer.json",
               HasSubstr("sequence 0 holds the token 65535"));
  expect_error("partita dataset inspect t_text_document --tokenizer tokenizer.json", HasSubstr("another tokenizer's"));
  must("truncate -s -2 t_text_document.bin");
  expect_error("partita dataset verify t_text_document", HasSubstr("cut short"));
  EXPECT_THAT(names_with("x"), ElementsAre());
}

TEST_F(TokenizeCommand, BlendsOfARunAreChecked) {
  const std::string config = SmallRun::get().config(), data = SmallRun::get().prefix();
  const auto error = [&](const std::string& options) {
    const Result r = shell("partita train " + config + " --run.directory=run " + options);
    EXPECT_EQ(r.code, 1) << options;
    EXPECT_FALSE(fs::exists(folder_ / "run"));
    return r.error;
  };
  EXPECT_THAT(error("--data.blend 1 x"), HasSubstr("data.blend is given too"));
  EXPECT_THAT(error("--data.path= --data.blend 1"), HasSubstr("no prefix follows the weight 1"));
  EXPECT_THAT(error("--data.path= --data.blend \"1 nowhere\""), HasSubstr("nowhere.idx does not exist"));
  EXPECT_THAT(error("--data.path= --data.format=prompts --data.blend \"1 a\""),
              HasSubstr("data.blend is of token files"));
  const Result printed = shell("partita train " + config + " --print-config --data.path= --data.blend 0.7 a 0.3 b");
  EXPECT_THAT(printed.output, HasSubstr("blend = [\"0.7\", \"a\", \"0.3\", \"b\"]"));
  // Two ranks read what one does, and one of them warns that there is no place for the order.
  const std::string two_parts = " --train.steps=2 --eval.every=0 --data.path= --data.blend 2 " + data + " 1 " +
                                (folder_ / "t_text_document").string();
  must("partita tokenize --quiet --input text.jsonl --tokenizer tokenizer.json --output-prefix t");
  must("partita train " + config + " --run.directory=alone" + two_parts);
  EXPECT_TRUE(fs::exists(folder_ / "t_text_document_cache"));
  const Result ranks =
      shell("partita launch -n 2 -- train " + config + " --run.directory=ranks --data.cache=/proc/none" + two_parts);
  ASSERT_EQ(ranks.code, 0) << ranks.error;
  expect_same_run(folder_ / "ranks", folder_ / "alone", 1e-5);
  EXPECT_NE(ranks.error.find("cannot be kept in /proc/none"), std::string::npos) << ranks.error;
  EXPECT_EQ(ranks.error.find("cannot be kept"), ranks.error.rfind("cannot be kept")) << ranks.error;
  // One part alone is the dataset by itself.
  const std::string two_steps = " --train.steps=2 --eval.every=0";
  must("partita train " + config + " --run.directory=one" + two_steps + " --data.path= --data.blend " + data);
  must("partita train " + config + " --run.directory=path" + two_steps + " --data.path=" + data);
  expect_same_run(folder_ / "one", folder_ / "path", 0);
}

}  // namespace
}  // namespace partita::internal::test
