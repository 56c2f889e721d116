// Rewriting of command lines for CLI11, and errors on invalid ones: on a small program, in this process.
#include "cli/command_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "cli/help.h"
#include "cli/options.h"
#include "tests/support/error_message.h"

namespace partita::cli::test {
using namespace internal;

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

struct Program {
  CLI::App app{"a program", "prog"};
  std::string path, prompt, kind = "b", prefix;
  int64_t tokens = 128;
  uint64_t seed = 0;
  double rate = 0.5;
  std::vector<std::string> input, keys = {"text"};
  bool greedy = false, special = true;
  Words extras, other;

  Program() {
    app.require_subcommand(1);
    CLI::App* generate = app.add_subcommand("generate", "writes");
    add_text(*generate, "PATH", path, "PATH", "where")->required();
    add_text(*generate, "--prompt", prompt, "TEXT", "what");
    add_number(*generate, "-n,--tokens", tokens, at_least(0), "how many");
    add_number(*generate, "--seed", seed, any_number(), "seed");
    add_number(*generate, "--rate", rate, {.least = 0, .most = 1, .most_open = true}, "rate");
    add_choice(*generate, "--kind", kind, {"alpha", "b", "gamma"}, "which");
    generate->add_flag("--greedy", greedy, "no dice");
    generate->add_flag("--special,!--no-special", special, "on unless switched off");
    CLI::App* data = app.add_subcommand("data", "looks");
    data->require_subcommand(1);
    CLI::App* read = data->add_subcommand("read", "reads");
    add_list(*read, "--input", input, "FILE...", "files")->required();
    add_list(*read, "--keys", keys, "KEY...", "keys");
    add_text(*read, "--output-prefix", prefix, "PREFIX", "where to")->required();
    CLI::App* join = app.add_subcommand("join", "joins");
    add_text(*join, "OUT", path, "OUT", "where to")->required();
    add_positional_list(*join, "IN", input, "IN...", "what");
    CLI::App* train = app.add_subcommand("train", "trains");
    add_text(*train, "CONFIG", path, "CONFIG", "file")->required();
    train->add_flag("--print-config", greedy, "print");
    train->allow_extras();
    train->callback([this, train] { extras = train->remaining(); });
    CLI::App* launch = app.add_subcommand("launch", "starts");
    add_number(*launch, "-n,--ranks", tokens, at_least(1), "ranks")->required();
    launch->prefix_command();
    launch->callback([this, launch] { other = launch->remaining(); });
  }

  void parse(const Words& words) {
    Words arranged = arrange(app, words);
    std::ranges::reverse(arranged);
    app.parse(std::move(arranged));
  }
};

// The program after it has read the words; and the message where they are wrong.
std::unique_ptr<Program> read(const Words& words) {
  auto program = std::make_unique<Program>();
  program->parse(words);
  return program;
}
std::string refused(const Words& words) {
  return error_message([&] { (void)read(words); });
}

TEST(CommandLine, ValuesWithAndWithoutEquals) {
  for (const Words& words :
       {Words{"generate", "x", "--tokens", "5", "--prompt", "a b"},
        Words{"generate", "--tokens=5", "x", "--prompt=a b"}, Words{"generate", "x", "-n5", "--prompt=a b"},
        Words{"generate", "-n", "5", "x", "--prompt", "a b"},
        Words{"generate", "-n=5", "--prompt", "a b", "--", "x"}}) {
    const auto program = read(words);
    EXPECT_EQ(program->path, "x");
    EXPECT_EQ(program->tokens, 5);
    EXPECT_EQ(program->prompt, "a b");
  }
}

// Texts that CLI11 alone takes for something else.
TEST(CommandLine, AnyTextIsAValue) {
  for (const char* text : {"", "[a, b]", "{}", "[]", "%%", "-5", "-", "a=b", "generate", "++", "\"q\"", "ü\n"}) {
    EXPECT_EQ(read({"generate", "x", std::string("--prompt=") + text, "--greedy"})->prompt, text);
    EXPECT_EQ(read({"generate", "x", "--prompt", text, "--greedy"})->prompt, text);
  }
  EXPECT_EQ(read({"generate", "x", "--prompt=--tokens"})->prompt, "--tokens");
  EXPECT_EQ(read({"generate", "--", "--path"})->path, "--path");
  EXPECT_EQ(read({"generate", "generate"})->path, "generate");
  EXPECT_THAT(read({"data", "read", "--input", "[PAD]", "[UNK]", "--input=[a,b]", "--output-prefix", "p"})->input,
              ElementsAre("[PAD]", "[UNK]", "[a,b]"));
}

// CLI11 would take "[a,b]" for two words.
TEST(CommandLine, AnyWordIsOneOfAPositionalList) {
  const auto program = read({"join", "[out]", "[a]", "[a,b].txt", "a[1].txt", "[a,b]", "=", "=[x]", "", "--", "-x"});
  EXPECT_EQ(program->path, "[out]");
  EXPECT_THAT(program->input, ElementsAre("[a]", "[a,b].txt", "a[1].txt", "[a,b]", "=", "=[x]", "", "-x"));
  const auto marked = read({"join", "--", "-out", "a", "-b", "++"});
  EXPECT_EQ(marked->path, "-out");
  EXPECT_THAT(marked->input, ElementsAre("a", "-b", "++"));
  for (const char* word : {"", "a", "[", "[]", "=", "==", "=[]"}) EXPECT_EQ(unsealed(sealed(word)), word);
}

TEST(CommandLine, ListsEndAtTheNextOption) {
  const auto program =
      read({"data", "read", "--input", "a", "b", "--keys", "k", "--output-prefix", "p", "--input", "c"});
  EXPECT_THAT(program->input, ElementsAre("a", "b", "c"));
  EXPECT_THAT(program->keys, ElementsAre("k"));
  EXPECT_THAT(read({"data", "read", "--input", "a", "--output-prefix", "p"})->keys, ElementsAre("text"));
}

TEST(CommandLine, UnknownCommandsNameTheNearest) {
  EXPECT_EQ(refused({"genrate", "x"}), "unknown command 'genrate': did you mean 'generate'?");
  EXPECT_EQ(refused({"genrate", "--help"}), "unknown command 'genrate': did you mean 'generate'?");
  EXPECT_EQ(refused({"evaluate"}), "unknown command 'evaluate': did you mean 'eval'?");  // another system's name
  EXPECT_EQ(refused({"doctor"}), "unknown command 'doctor': expected one of generate, data, join, train, launch");
  EXPECT_EQ(refused({"data", "raed"}), "data: unknown command 'raed': did you mean 'read'?");
  EXPECT_EQ(refused({"data", "evaluate"}), "data: unknown command 'evaluate': expected one of read");
  EXPECT_EQ(refused({"help", "trian"}), "unknown command 'trian': did you mean 'train'?");
  EXPECT_THAT(refused({"--bogus", "train"}), StartsWith("unknown option '--bogus' in place of a command"));
}

TEST(CommandLine, AMissingCommandListsThem) {
  EXPECT_THAT(refused({}),
              AllOf(StartsWith("a command is missing\n\nUsage: prog COMMAND"), HasSubstr("\n  launch    starts\n")));
  EXPECT_THAT(refused({"data"}),
              AllOf(StartsWith("data: a command is missing\n\nUsage: prog data COMMAND"), HasSubstr("  read  reads")));
}

TEST(CommandLine, HelpAndVersionInEveryForm) {
  Program program;
  EXPECT_THAT(arrange(program.app, {"help"}), ElementsAre("--help"));
  EXPECT_THAT(arrange(program.app, {"-h"}), ElementsAre("--help"));
  EXPECT_THAT(arrange(program.app, {"help", "data", "read"}), ElementsAre("data", "read", "--help"));
  EXPECT_THAT(arrange(program.app, {"data", "help"}), ElementsAre("data", "--help"));
  EXPECT_THAT(arrange(program.app, {"generate", "x", "--help"}), ElementsAre("generate", "--help"));
  EXPECT_THAT(arrange(program.app, {"version"}), ElementsAre("--version"));
}

TEST(CommandLine, UnknownOptionsComeBeforeMissingOnes) {
  EXPECT_EQ(refused({"data", "read", "--output_prefix", "x"}),
            "data read: unknown option '--output_prefix': did you mean '--output-prefix'?");
  EXPECT_EQ(refused({"data", "read", "-i", "x"}), "data read: unknown option '-i': did you mean '--input'?");
  EXPECT_EQ(refused({"data", "read", "-input", "x"}), "data read: unknown option '-input': did you mean '--input'?");
  EXPECT_EQ(refused({"generate", "--prom=x"}), "generate: unknown option '--prom': did you mean '--prompt'?");
  EXPECT_EQ(refused({"generate", "--xyzzy"}),
            "generate: unknown option '--xyzzy': 'prog generate --help' describes it");
  EXPECT_EQ(refused({"data", "read"}),
            "data read needs --input FILE... and --output-prefix PREFIX: 'prog data read --help' describes it");
  EXPECT_EQ(refused({"generate"}), "generate needs PATH: 'prog generate --help' describes it");
}

TEST(CommandLine, WhatIsTooMuchOrTooLittle) {
  EXPECT_EQ(refused({"generate", "x", "y"}), "generate: unexpected argument 'y': 'prog generate --help' describes it");
  EXPECT_EQ(refused({"generate", "x", "--", "y"}),
            "generate: unexpected argument 'y': 'prog generate --help' describes it");
  EXPECT_EQ(refused({"generate", "x", "--tokens", "5", "-n", "6"}), "generate: -n is given twice: give it once");
  EXPECT_EQ(refused({"generate", "x", "--tokens"}), "generate: --tokens needs a value: --tokens N");
  EXPECT_EQ(refused({"generate", "x", "--prompt", "--tokens", "5"}),
            "generate: --prompt needs a value (TEXT), found the option --tokens; if that is the value, write "
            "--prompt=--tokens");
  EXPECT_EQ(refused({"generate", "x", "--greedy=5"}), "generate: --greedy takes no value, or true or false, got '5'");
  EXPECT_TRUE(read({"generate", "x", "--greedy=true"})->greedy);
  EXPECT_FALSE(read({"generate", "x", "--greedy=false"})->greedy);
  EXPECT_TRUE(read({"generate", "x"})->special);
  for (const char* off : {"--special=false", "--no-special", "--no-special=true"})
    EXPECT_FALSE(read({"generate", "x", off})->special) << off;
  EXPECT_TRUE(read({"generate", "x", "--no-special=false"})->special);
}

TEST(CommandLine, NumbersSayTheirRange) {
  const auto tokens = [](const char* text) { return refused({"generate", "x", "--tokens", text}); };
  EXPECT_EQ(tokens("-1"), "--tokens must be at least 0, got -1");
  EXPECT_EQ(tokens("x"), "--tokens must be an integer of at least 0, got 'x'");
  EXPECT_EQ(tokens(""), "--tokens must be an integer of at least 0, got ''");
  EXPECT_EQ(tokens("1,000"), "--tokens must be an integer of at least 0, got '1,000': write 1000");
  EXPECT_EQ(tokens("1e3"), "--tokens must be an integer of at least 0, got '1e3': write 1000");
  EXPECT_EQ(tokens("9223372036854775808"), "--tokens must be at most 9223372036854775807, got 9223372036854775808");
  const std::string digits(400, '9');  // more than a double has
  EXPECT_EQ(tokens(digits.c_str()), "--tokens must be at most 9223372036854775807, got " + digits);
  EXPECT_EQ(refused({"generate", "x", "-n", "-1"}), "--tokens must be at least 0, got -1");
  EXPECT_EQ(read({"generate", "x", "--tokens", "010"})->tokens, 10);  // not 8
  EXPECT_EQ(refused({"generate", "x", "--seed", "-1"}), "--seed must be at least 0, got -1");
  EXPECT_EQ(refused({"generate", "x", "--seed", "18446744073709551616"}),
            "--seed must be at most 18446744073709551615, got 18446744073709551616");
  EXPECT_EQ(read({"generate", "x", "--seed", "18446744073709551615"})->seed, 18446744073709551615U);
  EXPECT_EQ(refused({"generate", "x", "--rate", "1"}), "--rate must be at least 0 and less than 1, got 1");
  EXPECT_EQ(refused({"generate", "x", "--rate", "nan"}), "--rate must be at least 0 and less than 1, got nan");
  EXPECT_EQ(refused({"generate", "x", "--rate", "half"}),
            "--rate must be a number of at least 0 and less than 1, got 'half'");
}

TEST(CommandLine, ChoicesNameTheNearest) {
  EXPECT_EQ(refused({"generate", "x", "--kind", "gama"}),
            "--kind must be alpha, b or gamma, got 'gama': did you mean 'gamma'?");
  EXPECT_EQ(refused({"generate", "x", "--kind", "zzz"}), "--kind must be alpha, b or gamma, got 'zzz'");
  EXPECT_EQ(read({"generate", "x", "--kind", "alpha"})->kind, "alpha");
}

TEST(CommandLine, SettingsGoToTheConfiguration) {
  EXPECT_THAT(read({"train", "c.toml", "--a.b=5", "--a.c", "-1", "--d.e", "x", "y"})->extras,
              ElementsAre("--a.b=5", "--a.c", "-1", "--d.e", "x", "y"));
  EXPECT_THAT(read({"train", "--a.b=5", "c.toml"})->extras, ElementsAre("--a.b=5"));
  EXPECT_EQ(refused({"train", "c.toml", "--print-confg"}),
            "train: unknown option '--print-confg': did you mean '--print-config'?");
  EXPECT_EQ(refused({"train", "--a.b", "5", "c.toml"}),
            "train: CONFIG comes before --a.b: write the settings after it, or --a.b=5");
}

TEST(CommandLine, LaunchHandsOnTheRest) {
  const Words command = {"generate", "x", "--prompt", "[a, b]", "--tokens=5"};
  for (const Words& begin : {Words{"launch", "-n", "2", "--"}, Words{"launch", "--ranks=2"}}) {
    Words words = begin;
    words.insert(words.end(), command.begin(), command.end());
    const auto program = read(words);
    EXPECT_EQ(program->tokens, 2);
    EXPECT_EQ(program->other, command);
  }
  for (const Words& other : {Words{"./mine", "--tokns", "-x", ":", ""}, Words{"/bin/true"}}) {
    Words words = {"launch", "-n", "2", "--"};
    words.insert(words.end(), other.begin(), other.end());
    EXPECT_EQ(read(words)->other, other) << "a program of the user's";
  }
  EXPECT_THAT(refused({"./mine"}), HasSubstr("unknown command './mine'"));
  EXPECT_EQ(refused({"launch", "-n", "2", "--", "trian"}), "unknown command 'trian': did you mean 'train'?");
  EXPECT_EQ(refused({"launch", "-n", "2", "generate", "x", "--tokns", "5"}),
            "generate: unknown option '--tokns': did you mean '--tokens'?");
  EXPECT_THAT(refused({"launch", "-n", "2", "launch", "-n", "2", "train", "c"}), HasSubstr("cannot start itself"));
  EXPECT_EQ(refused({"launch", "train", "x"}), "launch needs --ranks N: 'prog launch --help' describes it");
}

// Whatever is typed, the answer is a reading or a sentence: never an exception of CLI11's.
TEST(CommandLine, AnyWordsAreReadOrRefused) {
  const Words pool = {"generate", "data",
                      "read",     "train",
                      "launch",   "help",
                      "x",        "--",
                      "--tokens", "-n",
                      "5",        "-1",
                      "--prompt", "",
                      "--greedy", "=",
                      "--=",      "-",
                      "--a.b",    "[x]",
                      "--input",  "--output-prefix",
                      "--seed=3", "-z",
                      "++",       "{}",
                      "--kind",   "b",
                      "--help",   "join",
                      "=[x]"};
  std::mt19937 random(5);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    Words words;
    for (size_t n = random() % 8; n > 0; --n) words.push_back(pool[random() % pool.size()]);
    Program program;
    try {
      program.parse(words);
      ++taken;
    } catch (const UsageError&) {
    } catch (const CLI::CallForHelp&) {
    } catch (const CLI::Error& error) {
      ADD_FAILURE() << error.get_name() << ": " << error.what()
                    << " of: " << fmt::format("{}", fmt::join(words, " | "));
    }
  }
  EXPECT_GT(taken, 20);
}

TEST(Wrapped, CutsAtSpacesOnly) {
  EXPECT_EQ(wrapped("one two three", 7, "  "), "one two\n  three");
  EXPECT_EQ(wrapped("a-very-long-word b", 5, "  "), "a-very-long-word\n  b");
  EXPECT_EQ(wrapped("", 5, "  "), "");
}

}  // namespace
}  // namespace partita::cli::test
