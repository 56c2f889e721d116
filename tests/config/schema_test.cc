#include "partita/config/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

enum class Colour : uint8_t { red, green, automatic, yes };

struct Settings {
  int64_t steps = 100;
  double rate = 1e-3;
  bool verbose = false;
  std::string name = "plain";
  std::filesystem::path path = "data/a";
  Colour colour = Colour::red;
};

ConfigSchema bind(Settings& s) {
  ConfigSchema schema;
  schema.section("train", "the run")
      .field("steps", s.steps, at_least(1), "optimizer steps")
      .field("rate", s.rate, fraction(), "learning rate")
      .field("verbose", s.verbose, "talk");
  schema.section("output", "what is written")
      .field("name", s.name, "a name")
      .field("path", s.path, "a place")
      .choice("colour", s.colour, {"red", "green", "auto", "true"}, "a colour");
  return schema;
}

Settings read(std::string_view toml, ConfigSources* sources = nullptr) {
  Settings settings;
  bind(settings).read_toml(toml, "a.toml", sources);
  return settings;
}

Settings override_with(std::vector<std::string> arguments, ConfigSources* sources = nullptr) {
  Settings settings;
  bind(settings).read_overrides(arguments, sources);
  return settings;
}

std::string toml_error(std::string_view toml) {
  return error_message([&] { read(toml); });
}

std::string override_error(std::vector<std::string> arguments) {
  return error_message([&] { override_with(arguments); });
}

TEST(ConfigSchema, ReadsEveryTypeAndRemembersTheLine) {
  ConfigSources sources;
  const Settings s = read(
      "[train]\nsteps = 1_000\nrate = 0.5\n\nverbose = true\n"
      "[output]\nname = \"a \\\"b\\\"\"\npath = '/x y'\ncolour = \"green\"\n",
      &sources);
  EXPECT_EQ(s.steps, 1000);
  EXPECT_EQ(s.rate, 0.5);
  EXPECT_TRUE(s.verbose);
  EXPECT_EQ(s.name, "a \"b\"");
  EXPECT_EQ(s.path, "/x y");
  EXPECT_EQ(s.colour, Colour::green);
  EXPECT_EQ(sources.at("train.steps"), "a.toml:2");
  EXPECT_EQ(sources.at("train.verbose"), "a.toml:5");
  EXPECT_EQ(sources.at("output.colour"), "a.toml:9");
}

TEST(ConfigSchema, KeepsDefaultsWhereNothingIsSaid) {
  ConfigSources sources;
  const Settings s = read("train.steps = 5", &sources);
  EXPECT_EQ(s.steps, 5);
  EXPECT_EQ(s.rate, 1e-3);
  EXPECT_EQ(s.name, "plain");
  EXPECT_EQ(sources, (ConfigSources{{"train.steps", "a.toml:1"}}));
  EXPECT_EQ(read("").steps, 100);
}

TEST(ConfigSchema, TakesIntegersForNumbersAndBooleansForTheirNames) {
  EXPECT_EQ(read("[train]\nrate = 0").rate, 0.0);
  EXPECT_EQ(read("[output]\ncolour = true").colour, Colour::yes);
}

TEST(ConfigSchema, NamesTheNearestKey) {
  EXPECT_EQ(toml_error("[train]\n\nstep = 5"), "a.toml:3: unknown key 'train.step': did you mean 'train.steps'?");
  EXPECT_EQ(toml_error("[train]\ncolour = 'red'"),
            "a.toml:2: unknown key 'train.colour': did you mean 'output.colour'?");
  EXPECT_EQ(toml_error("[trian]\nsteps = 5"), "a.toml:1: unknown section [trian]: did you mean 'train'?");
  EXPECT_EQ(toml_error("steps = 5"), "a.toml:1: unknown key 'steps': did you mean 'train.steps'?");
  EXPECT_THAT(toml_error("[train]\nzzzzzzzzzzzz = 5"), StartsWith("a.toml:2: unknown key 'train.zzzzzzzzzzzz'"));
}

TEST(ConfigSchema, SaysWhatWasExpectedAndFound) {
  EXPECT_EQ(toml_error("[train]\nsteps = 0"), "a.toml:2: train.steps = 0: expected an integer of at least 1");
  EXPECT_EQ(toml_error("[train]\nsteps = 1.5"), "a.toml:2: train.steps = 1.5: expected an integer of at least 1");
  EXPECT_EQ(toml_error("[train]\nsteps = 'a'"), "a.toml:2: train.steps = \"a\": expected an integer of at least 1");
  EXPECT_EQ(toml_error("[train]\nrate = 1"),
            "a.toml:2: train.rate = 1: expected a number of at least 0 and less than 1");
  EXPECT_THAT(toml_error("[train]\nrate = nan"), HasSubstr("expected a number"));
  EXPECT_THAT(toml_error("[train]\nrate = inf"), HasSubstr("expected a number"));
  EXPECT_EQ(toml_error("[train]\nverbose = 1"), "a.toml:2: train.verbose = 1: expected true or false: write true");
  EXPECT_EQ(toml_error("[output]\nname = 1"), "a.toml:2: output.name = 1: expected a string");
  EXPECT_EQ(toml_error("[output]\ncolour = 'gren'"),
            "a.toml:2: output.colour = \"gren\": expected red, green, auto or true: did you mean 'green'?");
  EXPECT_EQ(toml_error("[output]\ncolour = false"),
            "a.toml:2: output.colour = false: expected red, green, auto or true");
  EXPECT_THAT(toml_error("[train]\nsteps = [1]"), AllOf(HasSubstr("a.toml:2"), HasSubstr("array")));
  EXPECT_THAT(toml_error("[train.steps]\na = 1"), AllOf(HasSubstr("a.toml:1"), HasSubstr("table")));
  EXPECT_THAT(toml_error("train = 5"), HasSubstr("'train' is a section"));
}

TEST(ConfigSchema, ReportsBrokenTomlWithItsLine) {
  EXPECT_THAT(toml_error("[train]\nsteps = \n"), StartsWith("a.toml:2: not valid TOML"));
  EXPECT_THAT(toml_error("[train]\nsteps = 1\nsteps = 2\n"), StartsWith("a.toml:3: not valid TOML"));
}

TEST(ConfigSchema, OverridesInBothWritings) {
  ConfigSources sources;
  const Settings s = override_with({"--train.steps=7", "--train.rate", "2e-1", "--train.verbose", "--output.name=a=b",
                                    "--output.colour", "auto", "--output.path="},
                                   &sources);
  EXPECT_EQ(s.steps, 7);
  EXPECT_EQ(s.rate, 0.2);
  EXPECT_TRUE(s.verbose);
  EXPECT_EQ(s.name, "a=b");
  EXPECT_EQ(s.colour, Colour::automatic);
  EXPECT_EQ(s.path, "");
  EXPECT_EQ(sources.size(), 6U);
  EXPECT_EQ(sources.at("train.rate"), "command line");
  EXPECT_FALSE(override_with({"--train.verbose", "false"}).verbose);
  EXPECT_EQ(override_with({"--output.name", "12"}).name, "12");
  EXPECT_EQ(override_with({"--train.steps=1", "--train.steps=2"}).steps, 2);
}

TEST(ConfigSchema, RefusesWrongOverrides) {
  EXPECT_EQ(override_error({"--train.stpes=1"}),
            "command line: unknown key 'train.stpes': did you mean 'train.steps'?");
  EXPECT_EQ(override_error({"--steps=1"}), "command line: unknown key 'steps': did you mean 'train.steps'?");
  EXPECT_EQ(override_error({"--train.steps=1e3"}),
            "command line: train.steps = \"1e3\": expected an integer of at least 1: write 1000");
  EXPECT_THAT(override_error({"--train.steps=99999999999999999999"}), HasSubstr("expected an integer"));
  EXPECT_EQ(override_error({"--train.steps"}), "command line: train.steps has no value: write --train.steps=N");
  EXPECT_THAT(override_error({"--train.steps", "--train.verbose"}), HasSubstr("write --train.steps=N"));
  EXPECT_THAT(override_error({"--train.rate"}), HasSubstr("write --train.rate=X"));
  EXPECT_THAT(override_error({"--train.rate=nan"}), HasSubstr("expected a number"));
  EXPECT_THAT(override_error({"--train.rate=0.1x"}), HasSubstr("expected a number"));
  EXPECT_THAT(override_error({"--train.verbose=yes"}), HasSubstr("expected true or false"));
  // All of it is wrong usage, a wrong value of a known key too.
  for (const char* wrong : {"stray", "--train.stepz=1", "--train.steps=x", "--train.steps"})
    EXPECT_THROW(override_with({wrong}), UsageError) << wrong;
}

// What was probably meant by a value of another kind.
TEST(ConfigSchema, SaysHowToWriteAValue) {
  EXPECT_EQ(override_error({"--train.steps=1e3"}),
            "command line: train.steps = \"1e3\": expected an integer of at least 1: write 1000");
  EXPECT_THAT(override_error({"--train.steps=1,000"}), ::testing::EndsWith(": write 1000"));
  EXPECT_THAT(override_error({"--train.steps=0x10"}), ::testing::EndsWith(": write 16"));
  EXPECT_THAT(override_error({"--train.verbose=yes"}), ::testing::EndsWith("expected true or false: write true"));
  EXPECT_THAT(override_error({"--train.verbose=0"}), ::testing::EndsWith("expected true or false: write false"));
  EXPECT_THAT(override_error({"--train.verbose=maybe"}), ::testing::EndsWith("expected true or false"));
  EXPECT_EQ(toml_error("[train]\nsteps = 1e3\n"),
            "a.toml:2: train.steps = 1000.0: expected an integer of at least 1: write 1000");
  EXPECT_THAT(toml_error("[train]\nsteps = \"500\"\n"), ::testing::EndsWith(": write 500"));
  EXPECT_THAT(toml_error("[train]\nrate = \"0.5\"\n"), ::testing::EndsWith(": write it without quotes"));
  EXPECT_THAT(toml_error("[train]\nverbose = 1\n"), ::testing::EndsWith(": write true"));
}

// Neither wrapped around nor cut.
TEST(ConfigSchema, RefusesIntegersBeyondItsType) {
  EXPECT_EQ(override_error({"--train.steps=18446744073709551616"}),
            "command line: train.steps = 18446744073709551616: expected an integer of at least 1, and "
            "18446744073709551616 is beyond 64 bits");
  EXPECT_EQ(override_error({"--train.steps=-1"}), "command line: train.steps = -1: expected an integer of at least 1");
  EXPECT_THAT(toml_error("[train]\nsteps = 18446744073709551616\n"),
              AllOf(StartsWith("a.toml:2: not valid TOML: "), HasSubstr("18446744073709551616 is beyond 64 bits")));
}

TEST(ConfigSchema, SaysWhatIsWrongWithALineOfToml) {
  EXPECT_THAT(toml_error("[output]\nname = plain\n"),
              AllOf(StartsWith("a.toml:2: "), HasSubstr("a text is written in quotes: \"plain\"")));
  EXPECT_THAT(toml_error("[train]\n\nverbose = True  # yes\n"),
              AllOf(StartsWith("a.toml:3: "), HasSubstr("; write true")));
  EXPECT_THAT(toml_error("[train]\nverbose = no\n"), HasSubstr("; write false"));
  EXPECT_THAT(toml_error("[train]\nsteps = 1,000\n"), HasSubstr("; write 1000"));
  EXPECT_THAT(toml_error("[train]\nsteps =\n"), HasSubstr("the value is missing"));
}

TEST(ConfigSchema, TakesQuotesAsTomlDoes) {
  EXPECT_EQ(override_with({"--output.name=\"a b\""}).name, "a b");
  EXPECT_EQ(override_with({"--output.colour=\"green\""}).colour, Colour::green);
  EXPECT_EQ(override_with({"--output.name=\"\\u00e9\""}).name, "\xC3\xA9");
  for (const char* text : {"\"", "a\"", "\"a", "\"a\" b = \"c\"", "'a'"})
    EXPECT_EQ(override_with({std::string("--output.name=") + text}).name, text);
}

TEST(ConfigSchema, OfAKeyGivenTwiceTheLastValueCounts) {
  EXPECT_EQ(override_with({"--train.steps=5", "--train.steps", "6"}).steps, 6);
}

TEST(ConfigSchema, KnowsOtherNamesOfKeys) {
  constexpr std::array kAliases = {ConfigAlias{"max_iters", "did you mean 'train.steps'?"}};
  Settings settings;
  ConfigSchema schema = bind(settings);
  schema.also_called(kAliases);
  const auto error = [&](const char* argument) {
    return error_message([&] { schema.read_overrides(std::vector<std::string>{argument}); });
  };
  EXPECT_EQ(error("--max_iters=5"), "command line: unknown key 'max_iters': did you mean 'train.steps'?");
  EXPECT_EQ(error("--train.max-iters=5"), "command line: unknown key 'train.max-iters': did you mean 'train.steps'?");
  EXPECT_EQ(error("--train.step=5"), "command line: unknown key 'train.step': did you mean 'train.steps'?");
}

// A comment ends with its line, whatever the name of the file is.
TEST(ConfigSchema, ReadsRenamedKeysAndSaysSo) {
  constexpr std::array kRenames = {ConfigRename{"train.count", "train.steps"},
                                   ConfigRename{"train.title", "output.name"}};
  Settings settings;
  ConfigSchema schema = bind(settings);
  schema.renamed(kRenames);
  ConfigSources sources;
  schema.read_toml("[train]\ncount = 7\n", "a.toml", &sources);
  EXPECT_EQ(settings.steps, 7);
  EXPECT_EQ(sources.at("train.steps"), "a.toml:2");
  schema.read_overrides(std::vector<std::string>{"--train.title=x", "--train.steps=8"}, &sources);
  EXPECT_EQ(settings.name, "x");
  EXPECT_EQ(settings.steps, 8);
  EXPECT_THAT(schema.notes(), ElementsAre("a.toml:2: train.count is now called train.steps",
                                          "command line: train.title is now called output.name"));
  EXPECT_THAT(error_message([&] { schema.read_toml("[train]\ncount = 0\n", "b.toml"); }),
              HasSubstr("b.toml:2: train.steps = 0: expected an integer of at least 1"));
  EXPECT_THAT(schema.markdown(), HasSubstr("| `train.count` | `train.steps` |\n"));
}

TEST(ConfigSchema, MarkdownIsATablePerSection) {
  Settings settings;
  EXPECT_THAT(bind(settings).markdown(),
              HasSubstr("## [train]\nthe run\n\n| key | values | default | meaning |\n|---|---|---|---|\n"
                        "| `train.steps` | an integer of at least 1 | `100` | optimizer steps |\n"));
  EXPECT_THAT(bind(settings).markdown(), testing::Not(HasSubstr("Old names")));
}

TEST(ConfigSchema, SourcesAreCommentsOfOneLine) {
  Settings settings;
  const ConfigSources sources{{"train.steps", "a\nb\x1b.toml:2"}};
  EXPECT_EQ(read(bind(settings).to_toml(&sources)).steps, 100);
}

TEST(ConfigSchema, PrintsWhereEachValueCameFrom) {
  Settings settings;
  ConfigSchema schema = bind(settings);
  ConfigSources sources;
  schema.read_toml("[train]\nsteps = 5\n", "a.toml", &sources);
  const std::vector<std::string> overrides = {"--output.colour=true"};
  schema.read_overrides(overrides, &sources);
  const std::string text = schema.to_toml(&sources);
  EXPECT_THAT(text, HasSubstr("[train]\nsteps = 5        # a.toml:2\nrate = 0.001     # default\n"));
  EXPECT_THAT(text, HasSubstr("colour = true    # command line\n"));
}

TEST(ConfigSchema, HelpListsKeyTypeDefaultAndMeaning) {
  Settings settings;
  const std::string help = bind(settings).help();
  EXPECT_THAT(help, HasSubstr("[train] the run\n"));
  EXPECT_THAT(help, HasSubstr("--train.steps (an integer of at least 1; default 100)\n      optimizer steps\n"));
  EXPECT_THAT(help, HasSubstr("--output.colour (red, green, auto or true; default \"red\")\n      a colour\n"));
}

TEST(ConfigSchema, RoundTripsRandomValues) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    Settings s;
    s.steps = static_cast<int64_t>(random() >> (1 + random() % 62)) + 1;
    s.rate = std::ldexp(static_cast<double>(random() >> 11), -53 - static_cast<int>(random() % 900));
    s.verbose = random() % 2 == 0;
    s.colour = static_cast<Colour>(random() % 4);
    s.name.clear();
    for (size_t k = random() % 12; k > 0; --k) s.name += static_cast<char>(random() % 128);
    s.name += "\xC3\xBC#'\"\\\n\t";
    s.path = "dir/" + std::string(random() % 3, ' ') + "\"x";
    const std::string text = bind(s).to_toml();
    const Settings back = read(text);
    EXPECT_EQ(back.steps, s.steps);
    EXPECT_EQ(back.rate, s.rate) << text;
    EXPECT_EQ(back.verbose, s.verbose);
    EXPECT_EQ(back.colour, s.colour);
    EXPECT_EQ(back.name, s.name);
    EXPECT_EQ(back.path, s.path);
    ConfigSources sources{{"train.steps", "b # c.toml:7"}};
    EXPECT_EQ(read(bind(s).to_toml(&sources)).name, s.name);
  }
}

TEST(ConfigSchema, TablesKeepTheirOrder) {
  ConfigTable table;
  ConfigSchema schema;
  schema.section("a", "").field("plan", table, {"row", "column"}, "roles");
  const auto message = [&](const std::string& text) {
    return error_message([&] { schema.read_toml("[a.plan]\n" + text, "a.toml"); });
  };
  schema.read_toml("[a.plan]\n\"z.*\" = \"row\"\nb = \"column\"\n\"a \\\"\" = \"row\"\n", "a.toml");
  const ConfigTable expected = {{"z.*", "row"}, {"b", "column"}, {"a \"", "row"}};
  EXPECT_EQ(table, expected);
  const std::string printed = schema.to_toml();
  EXPECT_EQ(printed, "[a]\nplan = {\"z.*\" = \"row\", \"b\" = \"column\", \"a \\\"\" = \"row\"}\n");
  table.clear();
  schema.read_toml(printed, "b.toml");
  EXPECT_EQ(table, expected);
  schema.read_overrides(std::vector<std::string>{"--a.plan={\"y\" = \"row\", \"x\" = \"column\"}"});
  EXPECT_EQ(table, (ConfigTable{{"y", "row"}, {"x", "column"}}));
  schema.read_overrides(std::vector<std::string>{"--a.plan={}"});
  EXPECT_TRUE(table.empty());
  EXPECT_THAT(schema.help(), HasSubstr("--a.plan (a table of names, each with row or column; default {})"));

  EXPECT_EQ(message("y = 'row'\n\nx = 'rwo'\n"),
            "a.toml:4: a.plan: \"x\" = \"rwo\": expected one of row, column: did you mean 'row'?");
  EXPECT_EQ(message("x = 3\n"),
            "a.toml:2: a.plan: \"x\" has a value that is not a string: expected one of row, column");
  EXPECT_EQ(message("x.y = 'row'\n"),
            "a.toml:2: a.plan: x is a table: expected one of row, column; a name with points is written in quotes");
  EXPECT_EQ(
      message("'x.y' = {role = 'column', parts = 3}\n"),
      "a.toml:2: a.plan: \"x.y\" is a table: parts, quantum, gather and optional are for plans of your own modules: "
      "write \"column\"");
  EXPECT_EQ(
      message("x = {role = 'cols'}\n"),
      "a.toml:2: a.plan: \"x\" is a table: parts, quantum, gather and optional are for plans of your own modules: "
      "write one of row, column");
  EXPECT_EQ(error_message([&] { schema.read_toml("[a]\nplan = 'row'\n", "a.toml"); }),
            "a.toml:2: a.plan = \"row\": expected a table of names, each with row or column");
  EXPECT_THAT(error_message([&] { schema.read_toml("[a]\nplan = {x = 'row',\n y = 'row'}\n", "a.toml"); }),
              AllOf(HasSubstr("a.toml:2: not valid TOML: "), EndsWith("; a table in braces is on one line")));
  const auto override = [&](const std::string& text) {
    return error_message([&] { schema.read_overrides(std::vector<std::string>{"--a.plan=" + text}); });
  };
  const std::string form =
      ": expected a table of names, each with row or column: write {\"NAME\" = \"VALUE\", ...} on one line";
  EXPECT_THAT(override("row"), HasSubstr("command line: a.plan = row" + form + " (not valid TOML: "));
  EXPECT_EQ(override("3"), "command line: a.plan = 3" + form);
  EXPECT_EQ(override("{x = 'row', x = 'row'}"),
            "command line: a.plan = {x = 'row', x = 'row'}" + form +
                " (not valid TOML: Error while parsing key-value pair: cannot redefine existing string 'x')");
  EXPECT_EQ(override("{x = 'row',\n y = 'row'}"), "command line: a.plan = {x = 'row',\n y = 'row'}" + form);
  EXPECT_EQ(override("{x = 'rwo'}"),
            "command line: a.plan: \"x\" = \"rwo\": expected one of row, column: did you mean 'row'?");
}

TEST(ConfigSchema, ListsAreArraysOrWords) {
  ConfigList list;
  int64_t after = 0;
  ConfigSchema schema;
  schema.section("data", "").field("blend", list, "parts").field("after", after, any_number(), "");
  schema.read_toml("[data]\nblend = [0.7, \"a b\", 3, \"c\"]\n", "a.toml");
  EXPECT_THAT(list, ElementsAre("0.7", "a b", "3", "c"));
  const std::string printed = schema.to_toml();
  EXPECT_THAT(printed, HasSubstr("blend = [\"0.7\", \"a b\", \"3\", \"c\"]\n"));
  list.clear();
  schema.read_toml(printed, "b.toml");
  EXPECT_THAT(list, ElementsAre("0.7", "a b", "3", "c"));
  schema.read_overrides(std::vector<std::string>{"--data.blend", "0.1", "x", "0.9", "y", "--data.after", "5"});
  EXPECT_THAT(list, ElementsAre("0.1", "x", "0.9", "y"));
  EXPECT_EQ(after, 5);
  schema.read_overrides(std::vector<std::string>{"--data.blend", "0.7", "my data/a", "", "0.3", " b"});
  EXPECT_THAT(list, ElementsAre("0.7", "my data/a", "", "0.3", " b"));
  schema.read_overrides(std::vector<std::string>{"--data.blend", "0.7 a  0.3 b", "--data.after", "6"});
  EXPECT_THAT(list, ElementsAre("0.7", "a", "0.3", "b"));
  EXPECT_EQ(after, 6);
  schema.read_overrides(std::vector<std::string>{"--data.blend= 2 z\t1 w "});
  EXPECT_THAT(list, ElementsAre("2", "z", "1", "w"));
  schema.read_overrides(std::vector<std::string>{"--data.blend="});
  EXPECT_THAT(list, ElementsAre());
  for (const std::vector<std::string>& same : {std::vector<std::string>{"--data.blend=[2,\"z\", 1, w]"},
                                               {"--data.blend=2,z,1,w"},
                                               {"--data.blend", "[2, z, 1, w]"},
                                               {"--data.blend", "[2,", "z,", "1,", "w]", "--data.after=5"},
                                               {"--data.blend", "2,", "z,", "1,", "w"}}) {
    list.clear();
    schema.read_overrides(same);
    EXPECT_THAT(list, ElementsAre("2", "z", "1", "w")) << same[0];
  }
  schema.read_toml("[data]\nblend = \"3 a, 4 b\"\n", "d.toml");
  EXPECT_THAT(list, ElementsAre("3", "a", "4", "b"));
  EXPECT_EQ(error_message([&] { schema.read_overrides(std::vector<std::string>{"--data.blend=[1,2"}); }),
            "command line: data.blend = [1,2: expected a list of strings and numbers: write [A, B], A,B or \"A B\"");
  EXPECT_THAT(error_message([&] {
                schema.read_overrides(std::vector<std::string>{"--data.blend", "1,", ",", "2"});
              }),
              HasSubstr("data.blend = 1, , 2: expected a list"));
  EXPECT_THAT(error_message([&] { schema.read_toml("[data]\nblend = [[1]]\n", "c.toml"); }),
              HasSubstr("c.toml:2: data.blend = an array that holds something else: expected a list"));
  EXPECT_THAT(error_message([&] { schema.read_toml("[data]\nblend = 1\n", "c.toml"); }), HasSubstr("expected a list"));
  EXPECT_THAT(error_message([&] { schema.read_toml("[data]\nafter = [1]\n", "c.toml"); }), HasSubstr("type array"));
}

TEST(Range, ContainsItsEndsUnlessOpen) {
  EXPECT_TRUE(at_least(1).contains(1));
  EXPECT_FALSE(at_least(1).contains(0.999));
  EXPECT_FALSE(more_than(0).contains(0));
  EXPECT_TRUE(more_than(0).contains(std::numeric_limits<double>::denorm_min()));
  EXPECT_TRUE(between(0, 3).contains(3));
  EXPECT_FALSE(between(0, 3).contains(3.0001));
  EXPECT_FALSE(fraction().contains(1));
  EXPECT_FALSE(any_number().contains(std::nan("")));
  EXPECT_FALSE(any_number().contains(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(any_number().text(), "");
  EXPECT_EQ(between(0, 3).text(), "at least 0 and at most 3");
}

// The parser calls itself per level: each of these took its stack away.
TEST(ConfigSchema, RefusesDeepNesting) {
  const auto repeated = [](int times, std::string_view part) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  EXPECT_THAT(toml_error("[train]\nsteps.a.b = 1"), HasSubstr("a.toml:2: train.steps"));
  for (const std::string& deep :
       {"a" + repeated(200'000, ".a") + " = 1", "[a" + repeated(200'000, ".a") + "]", "a = " + repeated(65, "["),
        "a = " + repeated(100'000, "{a = "), "a = " + repeated(50, "{a.a.a.a = ") + "1" + repeated(50, "}")})
    EXPECT_THAT(toml_error("[train]\n" + deep), AllOf(HasSubstr("a.toml:2"), HasSubstr("nested more than 64 deep")));
}

}  // namespace
}  // namespace partita::internal
