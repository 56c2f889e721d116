#include "partita/interop/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GenerationConfig parse(const json& root) { return parse_generation_config(root, "dir/generation_config.json"); }

// As Llama 3.2 Instruct's folder has it.
TEST(GenerationConfig, ReadsAPublishedFile) {
  const GenerationConfig g = parse({{"bos_token_id", 128000},
                                    {"do_sample", true},
                                    {"eos_token_id", {128001, 128008, 128009}},
                                    {"temperature", 0.6},
                                    {"top_p", 0.9},
                                    {"transformers_version", "4.45.0.dev0"}});
  EXPECT_THAT(g.eos_token_ids, ElementsAre(128001, 128008, 128009));
  EXPECT_EQ(g.bos_token_id, 128000);
  EXPECT_EQ(g.pad_token_id, std::nullopt);
  EXPECT_EQ(g.do_sample, true);
  EXPECT_EQ(g.temperature, 0.6);
  EXPECT_EQ(g.top_p, 0.9);
  EXPECT_EQ(g.top_k, std::nullopt);
  EXPECT_THAT(g.warnings, IsEmpty());
  EXPECT_EQ(g.fields["transformers_version"], "4.45.0.dev0");
}

TEST(GenerationConfig, TakesOneIdSeveralOrNone) {
  EXPECT_THAT(parse({{"eos_token_id", 7}}).eos_token_ids, ElementsAre(7));
  EXPECT_THAT(parse({{"eos_token_id", nullptr}}).eos_token_ids, IsEmpty());
  EXPECT_THAT(parse({{"eos_token_id", json::array()}}).eos_token_ids, IsEmpty());
  EXPECT_EQ(parse({{"pad_token_id", -1}}).pad_token_id, std::nullopt);
  EXPECT_THAT(parse(json::object()).eos_token_ids, IsEmpty());
}

TEST(GenerationConfig, NamesWhatIsNotApplied) {
  const auto warnings = parse({{"repetition_penalty", 1.1}, {"num_beams", 4}, {"min_p", 0}}).warnings;
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_THAT(warnings[0], HasSubstr("num_beams = 4 is not applied"));
  EXPECT_THAT(warnings[1], HasSubstr("repetition_penalty = 1.1 is not applied"));
}

TEST(GenerationConfig, RefusesValuesWithoutSense) {
  for (const auto& [field, value] : std::vector<std::pair<const char*, json>>{{"eos_token_id", "</s>"},
                                                                              {"eos_token_id", {1, 2.5}},
                                                                              {"eos_token_id", int64_t{1} << 40},
                                                                              {"bos_token_id", {1, 2}},
                                                                              {"do_sample", 1},
                                                                              {"temperature", "0.6"},
                                                                              {"temperature", -1},
                                                                              {"top_p", 1.5},
                                                                              {"top_k", -3},
                                                                              {"top_k", 2.5},
                                                                              {"max_new_tokens", 0}})
    EXPECT_THAT(error_message([&] {
                  (void)parse({{field, value}});
                }),
                HasSubstr(fmt::format("dir/generation_config.json: {} is {}", field, value.dump())));
  EXPECT_THAT(error_message([] { (void)parse({1, 2}); }), HasSubstr("expected a JSON object, found [1,2]"));
}

TEST(GenerationConfig, IdsThatTheFileLeavesOutAreThoseOfTheModel) {
  const TemporaryDirectory folder;
  const json ids = {{"bos_token_id", 1}, {"eos_token_id", 2}};
  EXPECT_THAT(read_generation_config(folder.path(), ids).eos_token_ids, ElementsAre(2));
  EXPECT_TRUE(read_generation_config(folder.path()).fields.empty());
  write_file(folder / kGenerationFile, R"({"eos_token_id": [0, 289], "temperature": 0.5})");
  const GenerationConfig both = read_generation_config(folder.path(), ids);
  EXPECT_THAT(both.eos_token_ids, ElementsAre(0, 289));
  EXPECT_EQ(both.bos_token_id, 1);
  EXPECT_EQ(both.fields, (json{{"bos_token_id", 1}, {"eos_token_id", {0, 289}}, {"temperature", 0.5}}));
}

}  // namespace
}  // namespace partita::internal
