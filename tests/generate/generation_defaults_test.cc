#include "partita/generate/generation_defaults.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

void expect(const GenerationChoice& c, float temperature, int64_t top_k, float top_p, int64_t tokens,
            const char* said) {
  EXPECT_FLOAT_EQ(c.sampling.temperature, temperature);
  EXPECT_EQ(c.sampling.top_k, top_k);
  EXPECT_FLOAT_EQ(c.sampling.top_p, top_p);
  EXPECT_EQ(c.tokens, tokens);
  EXPECT_EQ(c.published, said);
}

TEST(GenerationDefaults, TheFileSaysWhatTheUserDoesNot) {
  GenerationConfig file;
  file.do_sample = true;
  file.temperature = 0.6;
  file.top_p = 0.9;
  file.top_k = 50;
  file.max_new_tokens = 20;
  expect(choose_generation({}, file), 0.6F, 50, 0.9F, 20,
         "generation_config.json: max_new_tokens 20, temperature 0.6, top_k 50, top_p 0.9");
  expect(choose_generation({.temperature = 1.5F, .top_p = 1.0F, .top_k = 0, .tokens = 3}, file), 1.5F, 0, 1, 3, "");
  expect(choose_generation({.top_k = 7}, file), 0.6F, 7, 0.9F, 20,
         "generation_config.json: max_new_tokens 20, temperature 0.6, top_p 0.9");
  expect(choose_generation({.tokens = 9, .greedy = true}, file), 0, 0, 1, 9, "");
  // What is as without the file need not be said.
  GenerationConfig plain;
  plain.do_sample = true;
  plain.temperature = 1;
  expect(choose_generation({}, plain), 1, 0, 1, 128, "");
}

TEST(GenerationDefaults, AFileMayAskForTheLikeliestToken) {
  GenerationConfig file;
  file.do_sample = false;
  file.temperature = 0.6;
  expect(choose_generation({}, file), 0, 0, 1, 128, "generation_config.json: do_sample false (greedy)");
  expect(choose_generation({.top_k = 5}, file), 1, 5, 1, 128, "");
  expect(choose_generation({.temperature = 0.3F}, file), 0.3F, 0, 1, 128, "");
}

// As in transformers: without do_sample, what else the file says of sampling is not used.
TEST(GenerationDefaults, AFileWithoutDoSampleAsksForTheLikeliestToken) {
  const GenerationConfig file =
      parse_generation_config({{"eos_token_id", 2}, {"temperature", 0.6}, {"top_p", 0.9}, {"top_k", 4}}, "g.json");
  expect(choose_generation({}, file), 0, 0, 1, 128, "generation_config.json: no do_sample (greedy)");
  expect(choose_generation({.temperature = 0.7F}, file), 0.7F, 0, 1, 128, "");
  expect(choose_generation({.top_p = 0.5F}, file), 1, 0, 0.5F, 128, "");
}

// As transformers takes it: one token is always kept.
TEST(GenerationDefaults, TopPOfNothingIsTheLikeliestToken) {
  GenerationConfig file;
  file.do_sample = true;
  file.temperature = 0.6;
  file.top_p = 0;
  expect(choose_generation({}, file), 0, 0, 1, 128, "generation_config.json: temperature 0.6, top_p 0");
  expect(choose_generation({.top_p = 0.5F}, file), 0.6F, 0, 0.5F, 128, "generation_config.json: temperature 0.6");
}

TEST(GenerationDefaults, WithoutAFileNothingChanges) {
  expect(choose_generation({}, {}), 1, 0, 1, 128, "");
  expect(choose_generation({.temperature = 0.5F, .top_p = 0.5F}, {}), 0.5F, 0, 0.5F, 128, "");
}

}  // namespace
}  // namespace partita::internal
