// model.from: the model that it names gives the defaults, and is opened once.
#include <gmock/gmock.h>

#include <filesystem>

#include "partita/config/config.h"
#include "partita/interop/model_source.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kModels = fs::path(PARTITA_SOURCE_DIR) / "tests/golden/hf";

TEST(ModelFrom, GivesTheDefaults) {
  const std::string from = (kModels / "gpt2_tied").string();
  ConfigSources sources;
  const Config c = load_config({}, std::vector<std::string>{"--model.from=" + from, "--model.dropout=0.25"}, &sources);
  const ModelConfig model = open_model(from).model;
  EXPECT_EQ(c.model.layers, model.layers);
  EXPECT_EQ(c.model.hidden_size, model.hidden_size);
  EXPECT_EQ(c.model.vocab_size, model.vocab_size);
  EXPECT_EQ(c.model.dropout, 0.25);
  EXPECT_EQ(sources.at("model.layers"), from);
  EXPECT_EQ(sources.at("model.dropout"), "command line");
  EXPECT_EQ(c.train.steps, Config().train.steps);
}

TEST(ModelFrom, IsOpenedOnce) {
  const TemporaryDirectory folder;
  fs::copy(kModels / "gpt2_tied", folder / "model", fs::copy_options::recursive);
  Config c = load_config({}, std::vector<std::string>{"--model.from=" + (folder / "model").string()});
  ASSERT_NE(c.source, nullptr);
  const std::shared_ptr<const ModelSource> first = c.source;
  fs::remove_all(folder / "model");
  open_source(c);
  EXPECT_EQ(c.source, first);
  c.source = nullptr;
  EXPECT_THAT(error_message([&] { open_source(c); }), HasSubstr("no such file or folder"));
  c.from.clear();
  open_source(c);
  EXPECT_EQ(c.source, nullptr);
}

TEST(ModelFrom, DefaultsOfTheCallerCountLessThanSettings) {
  Config defaults;
  defaults.train.steps = 7;
  defaults.model.layers = 3;
  const Config c = load_config({}, std::vector<std::string>{"--model.layers=5"}, nullptr, defaults);
  EXPECT_EQ(c.train.steps, 7);
  EXPECT_EQ(c.model.layers, 5);
  EXPECT_EQ(load_config({}, {}, nullptr, defaults).model.layers, 3);
}

}  // namespace
}  // namespace partita::internal::test
