#include "partita/config/config.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <regex>
#include <set>

#include "partita/base/file.h"
#include "partita/config/config_aliases.h"
#include "partita/config/config_renames.h"
#include "tests/config/valid_config.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::valid_config;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LoadConfig, ReadsFileThenOverridesAndRemembersBoth) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "a.toml").string();
  write_file(file,
             "[model]\nlayers = 3\n[train]\nsteps = 7\n[precision]\ncompute = \"bf16\"\n[schedule]\nkind = \"linear\"\n"
             "[log]\nprogress = false\n");
  ConfigSources sources;
  const std::vector<std::string> overrides = {"--parallel.zero_stage=3", "--train.steps", "9"};
  const Config config = load_config(file, overrides, &sources);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.precision.compute, DType::bf16);
  EXPECT_EQ(config.train.steps, 9);
  EXPECT_EQ(config.schedule.kind, ScheduleKind::linear);
  EXPECT_EQ(config.log.progress, Switch::off);
  EXPECT_EQ(config.parallel.zero_stage, 3);
  EXPECT_EQ(sources.at("model.layers"), file + ":2");
  EXPECT_EQ(sources.at("train.steps"), "command line");
  EXPECT_EQ(sources.at("parallel.zero_stage"), "command line");
  EXPECT_FALSE(sources.contains("train.micro_batch"));
}

TEST(LoadConfig, EveryChoiceReadsAsItsEnumerator) {
  const TemporaryDirectory folder;
  write_file(folder / "a.toml", "");
  const auto with = [&](const char* override_text) {
    const std::vector<std::string> overrides = {override_text};
    return load_config(folder / "a.toml", overrides);
  };
  EXPECT_EQ(with("--precision.compute=fp32").precision.compute, DType::fp32);
  EXPECT_EQ(with("--precision.compute=bf16").precision.compute, DType::bf16);
  EXPECT_EQ(with("--precision.fp8=off").precision.fp8, Fp8Recipe::off);
  EXPECT_EQ(with("--precision.fp8=current").precision.fp8, Fp8Recipe::current);
  EXPECT_EQ(with("--precision.fp8=delayed").precision.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(with("--kernels.cuda_graph=auto").kernels.cuda_graph, Switch::automatic);
  EXPECT_EQ(with("--kernels.cuda_graph=true").kernels.cuda_graph, Switch::on);
  EXPECT_EQ(with("--kernels.cuda_graph=false").kernels.cuda_graph, Switch::off);
  EXPECT_EQ(with("--train.device=auto").train.device, DeviceRequest::automatic);
  EXPECT_EQ(with("--train.device=cpu").train.device, DeviceRequest::cpu);
  EXPECT_EQ(with("--train.device=cuda").train.device, DeviceRequest::cuda);
  EXPECT_EQ(with("--memory.recompute=none").memory.recompute, Recompute::none);
  EXPECT_EQ(with("--memory.recompute=selective").memory.recompute, Recompute::selective);
  EXPECT_EQ(with("--memory.recompute=mlp").memory.recompute, Recompute::mlp);
  EXPECT_EQ(with("--memory.recompute=full").memory.recompute, Recompute::full);
  EXPECT_EQ(with("--schedule.kind=cosine").schedule.kind, ScheduleKind::cosine);
  EXPECT_EQ(with("--schedule.kind=linear").schedule.kind, ScheduleKind::linear);
  EXPECT_EQ(with("--schedule.kind=constant").schedule.kind, ScheduleKind::constant);
  EXPECT_EQ(with("--schedule.kind=inverse-square-root").schedule.kind, ScheduleKind::inverse_square_root);
  EXPECT_EQ(with("--schedule.kind=warmup-stable-decay").schedule.kind, ScheduleKind::warmup_stable_decay);
  EXPECT_EQ(with("--schedule.wsd_style=exponential").schedule.wsd_style, WsdStyle::exponential);
  EXPECT_EQ(with("--schedule.wsd_style=linear").schedule.wsd_style, WsdStyle::linear);
  EXPECT_EQ(with("--schedule.wsd_style=cosine").schedule.wsd_style, WsdStyle::cosine);
  EXPECT_EQ(with("--schedule.wsd_style=one-minus-sqrt").schedule.wsd_style, WsdStyle::one_minus_sqrt);
  EXPECT_EQ(with("--schedule.unit=steps").schedule.unit, ScheduleUnit::steps);
  EXPECT_EQ(with("--schedule.unit=samples").schedule.unit, ScheduleUnit::samples);
  EXPECT_EQ(with("--log.progress=auto").log.progress, Switch::automatic);
  EXPECT_EQ(with("--log.progress=true").log.progress, Switch::on);
  EXPECT_EQ(with("--log.progress=false").log.progress, Switch::off);
}

TEST(LoadConfig, RefusesUnknownKeysAndValues) {
  const TemporaryDirectory folder;
  write_file(folder / "a.toml", "[parallel]\nzero_stag = 3\n");
  EXPECT_THAT(error_message([&] { (void)load_config(folder / "a.toml"); }),
              HasSubstr("a.toml:2: unknown key 'parallel.zero_stag': did you mean 'parallel.zero_stage'?"));
  write_file(folder / "a.toml", "");
  const std::vector<std::string> stage = {"--parallel.zero_stage=4"};
  EXPECT_EQ(error_message([&] { (void)load_config(folder / "a.toml", stage); }),
            "command line: parallel.zero_stage = 4: expected an integer of at least 0 and at most 3");
  EXPECT_THAT(error_message([&] { (void)load_config(folder / "absent.toml"); }), HasSubstr("absent.toml"));
}

std::string unknown_key(const std::string& key) {
  const TemporaryDirectory folder;
  write_file(folder / "a.toml", "");
  const std::vector<std::string> overrides = {"--" + key + "=1"};
  return error_message([&] { (void)load_config(folder / "a.toml", overrides); });
}

TEST(LoadConfig, KnowsTheNamesOfOtherSystems) {
  EXPECT_EQ(unknown_key("optimizer.lr"),
            "command line: unknown key 'optimizer.lr': did you mean 'optimizer.learning_rate'?");
  EXPECT_THAT(unknown_key("lr"), HasSubstr("'optimizer.learning_rate'"));
  EXPECT_THAT(unknown_key("train.batch_size"),
              AllOf(HasSubstr("'train.micro_batch'"), HasSubstr("'train.global_batch'")));
  EXPECT_THAT(unknown_key("gradient_accumulation_steps"), HasSubstr("'train.global_batch'"));
  EXPECT_THAT(unknown_key("train.epochs"), HasSubstr("set 'train.steps'"));
  EXPECT_THAT(unknown_key("max_steps"), HasSubstr("'train.steps'"));
  EXPECT_THAT(unknown_key("optimizer.wd"), HasSubstr("'optimizer.weight_decay'"));
  EXPECT_THAT(unknown_key("train.bf16"), HasSubstr("precision.compute = \"bf16\""));
  EXPECT_THAT(unknown_key("model.block_size"), HasSubstr("'train.sequence_length'"));
  EXPECT_THAT(unknown_key("model.n-layer"), HasSubstr("'model.layers'"));
  EXPECT_THAT(unknown_key("model.n_embd"), HasSubstr("'model.hidden_size'"));
  EXPECT_THAT(unknown_key("nproc_per_node"), HasSubstr("partita launch -n N"));
}

// An alias hides no key, is there once, and every key that its advice names exists.
TEST(LoadConfig, AliasesNameKeysThatExist) {
  const std::string help = config_help();
  std::set<std::string_view> names;
  for (const ConfigAlias& alias : config_aliases()) {
    EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
    EXPECT_THAT(std::string(alias.name), ::testing::MatchesRegex("[a-z0-9_]+"));
    EXPECT_EQ(help.find("." + std::string(alias.name) + " ("), std::string::npos) << alias.name << " is a key";
    EXPECT_THAT(unknown_key(std::string(alias.name)), ::testing::EndsWith(std::string(alias.advice)));
    const std::string advice(alias.advice);
    const std::regex key("([a-z_]+\\.[a-z_0-9]+)");
    for (auto at = std::sregex_iterator(advice.begin(), advice.end(), key); at != std::sregex_iterator(); ++at)
      EXPECT_NE(help.find("--" + (*at)[1].str() + " ("), std::string::npos) << (*at)[1].str();
  }
  EXPECT_GT(names.size(), 150U);
}

TEST(LoadConfig, TakesTheConfigurationsOfTheProject) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PARTITA_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_EQ(error_message([&] { validate(load_config(entry.path()), 2); }), "no error") << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(ToToml, ReadsBackToTheSameText) {
  const TemporaryDirectory folder;
  Config config = valid_config();
  config.optimizer.learning_rate = 1.0 / 3;
  config.schedule.kind = ScheduleKind::warmup_stable_decay;
  config.checkpoint.resume = "runs/\"a\"/step-1";
  config.log.progress = Switch::off;
  ConfigSources sources{{"train.steps", "b.toml:3"}};
  write_file(folder / "plain.toml", to_toml(config));
  write_file(folder / "sources.toml", to_toml(config, &sources));
  for (const char* name : {"plain.toml", "sources.toml"}) {
    const Config back = load_config(folder / name);
    EXPECT_EQ(to_toml(back), to_toml(config));
    EXPECT_EQ(back.optimizer.learning_rate, config.optimizer.learning_rate);
    EXPECT_EQ(back.model, config.model);
  }
  EXPECT_THAT(to_toml(config, &sources), AllOf(HasSubstr("# b.toml:3\n"), HasSubstr("# default\n")));
}

TEST(ConfigHelp, ListsEveryKeyOfTheFile) {
  const std::string help = config_help(), toml = to_toml(Config{});
  std::string section;
  int keys = 0;
  for (size_t begin = 0, end = 0; (end = toml.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = toml.substr(begin, end - begin);
    if (line.starts_with('[')) section = line.substr(1, line.size() - 2);
    const size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    EXPECT_THAT(help, HasSubstr("--" + section + "." + line.substr(0, equals) + " ("));
    ++keys;
  }
  EXPECT_GT(keys, 50);
}

TEST(AccumulationSteps, FillTheGlobalBatch) {
  const Config config = valid_config();
  for (const int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    EXPECT_EQ(accumulation_steps(config, ranks) * ranks * config.train.micro_batch, config.train.global_batch);
  }
}

TEST(LearningRate, CountsStepsOrSamples) {
  Config config = valid_config();
  config.optimizer.learning_rate = 1.0, config.optimizer.min_learning_rate = 0.0;
  config.schedule.kind = ScheduleKind::linear;
  EXPECT_DOUBLE_EQ(learning_rate(config, 25, 25 * config.train.global_batch), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 100 * config.train.global_batch), 0.0);
  // The same curve in samples, and a longer one.
  config.schedule.unit = ScheduleUnit::samples;
  EXPECT_DOUBLE_EQ(learning_rate(config, 25, 25 * config.train.global_batch), 0.75);
  config.schedule.decay = 4800, config.schedule.warmup = 48;
  EXPECT_DOUBLE_EQ(learning_rate(config, 1, 1 * config.train.global_batch), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 2, 2 * config.train.global_batch), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 101, 101 * config.train.global_batch), 0.5);
}

TEST(MakeSchedule, FillsInLengths) {
  Config config = valid_config();
  EXPECT_EQ(make_schedule(config).length, 100);
  EXPECT_EQ(make_schedule(config).wsd_decay, 10);
  config.schedule.unit = ScheduleUnit::samples;
  EXPECT_EQ(make_schedule(config).length, 2400);
  config.schedule.decay = 50, config.schedule.wsd_decay = 7;
  EXPECT_EQ(make_schedule(config).length, 50);
  EXPECT_EQ(make_schedule(config).wsd_decay, 7);
}

TEST(ConfigDocument, IsInTheDocs) {
  const std::filesystem::path path = PARTITA_SOURCE_DIR "/docs/configuration.md";
  if (std::getenv("PARTITA_WRITE_DOCS") != nullptr) write_file(path, config_document());
  EXPECT_EQ(read_file(path), config_document())
      << "write it with PARTITA_WRITE_DOCS=1 build/tests/config_test --gtest_filter=ConfigDocument.*";
}

TEST(ConfigRenames, KeysOfEarlierVersionsAreRead) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "a.toml").string();
  write_file(file, "[train]\nprecision = \"bf16\"\nrecompute = \"mlp\"\n[parallel]\nblocks_per_unit = 3\n");
  const std::vector<std::string> overrides = {"--train.fp8=delayed", "--train.deterministic"};
  const Config config = load_config(file, overrides);
  EXPECT_EQ(config.precision.compute, DType::bf16);
  EXPECT_EQ(config.memory.recompute, Recompute::mlp);
  EXPECT_EQ(config.parallel.layers_per_collective, 3);
  EXPECT_EQ(config.precision.fp8, Fp8Recipe::delayed);
  EXPECT_TRUE(config.kernels.deterministic);
  EXPECT_EQ(parse_saved_config("[train]\nprecision = \"fp16\"\n", "a").precision.compute, DType::fp16);
}

TEST(ConfigRenames, TrueAndFalseBecomeWords) {
  for (const char* key : {"[train]\noffload_optimizer", "[memory]\noffload_optimizer"}) {
    EXPECT_EQ(parse_saved_config(fmt::format("{} = true\n", key), "a").memory.optimizer, "host");
    EXPECT_EQ(parse_saved_config(fmt::format("{} = false\n", key), "a").memory.optimizer, "device");
    EXPECT_EQ(parse_saved_config(fmt::format("{} = \"host:0.5\"\n", key), "a").memory.optimizer, "host:0.5");
  }
  const TemporaryDirectory folder;
  const std::string file = (folder / "a.toml").string();
  write_file(file, "");
  for (const auto& [text, place] : {std::pair("true", "host"), {"false", "device"}, {"host", "host"}})
    EXPECT_EQ(load_config(file, std::vector{fmt::format("--memory.offload_optimizer={}", text)}).memory.optimizer,
              place);
  EXPECT_EQ(load_config(file, std::vector<std::string>{"--memory.offload_optimizer"}).memory.optimizer, "host");
}

TEST(ConfigRenames, NameKeysThatAreThere) {
  const std::string help = config_help();
  for (const ConfigRename& rename : config_renames()) {
    EXPECT_THAT(help, HasSubstr(fmt::format("--{} (", rename.now)));
    EXPECT_THAT(help, Not(HasSubstr(fmt::format("--{} (", rename.before))));
  }
}

}  // namespace
}  // namespace partita::internal
