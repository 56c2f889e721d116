// Sets every configuration key to extreme values: each is accepted, or rejected with an error that names the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "partita/base/file.h"
#include "partita/base/printable.h"
#include "partita/config/config.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<std::string> all_keys() {
  std::vector<std::string> keys;
  const std::string help = config_help();
  const std::regex key("--([a-z_0-9]+\\.[a-z_0-9]+) \\(");
  for (auto it = std::sregex_iterator(help.begin(), help.end(), key); it != std::sregex_iterator(); ++it)
    keys.push_back((*it)[1]);
  return keys;
}

const std::vector<std::string>& absurd_values() {
  static const std::vector<std::string> values = {"0",
                                                  "-1",
                                                  "1",
                                                  "2147483648",
                                                  "4611686018427387904",
                                                  "9223372036854775807",
                                                  "18446744073709551616",
                                                  "1e308",
                                                  "1e-320",
                                                  "nan",
                                                  "-inf",
                                                  "",
                                                  std::string(100'000, 'x'),
                                                  "../..",
                                                  "a\nb",
                                                  "\x1b[2J\xff"};
  return values;
}

class Ranges : public testing::Test {
 protected:
  Ranges() {
    write_file(
        folder_ / "a.toml",
        "[data]\npath = \"data/a\"\n[model]\nvocab_size = 100\n[eval]\nevery = 0\n[train]\nsequence_length = 8\n");
  }
  [[nodiscard]] Config load(const std::vector<std::string>& overrides) const {
    return load_config(folder_ / "a.toml", overrides);
  }
  // What reading and checking say; "no error" where the value is taken. Anything but an Error ends the test.
  [[nodiscard]] std::string outcome(const std::vector<std::string>& overrides) const {
    return error_message([&] { validate(load(overrides), 1); });
  }
  TemporaryDirectory folder_;
};

TEST_F(Ranges, EveryKeyWithEveryAbsurdValue) {
  const std::vector<std::string> keys = all_keys();
  EXPECT_GT(keys.size(), 70U);
  const std::set<std::string> free_text = {"model.from", "model.base"};  // they open what they name
  for (const std::string& key : keys)
    for (const std::string& value : absurd_values()) {
      if (free_text.contains(key)) continue;
      const std::string message = outcome({"--" + key + "=" + value});
      if (message == "no error") continue;
      EXPECT_THAT(message, testing::Not(HasSubstr("internal error"))) << key << " = " << value.substr(0, 30);
      const std::string name = key.substr(key.find('.') + 1);
      EXPECT_THAT(message, testing::AnyOf(HasSubstr(name), HasSubstr(key.substr(0, key.find('.')))));
    }
}

TEST_F(Ranges, NoNumberIsNeitherANumberNorInfinite) {
  const std::string help = config_help();
  int reals = 0;
  for (const std::string& key : all_keys()) {
    if (help.find("--" + key + " (a number") == std::string::npos) continue;
    ++reals;
    for (const char* value : {"nan", "inf", "-inf", "1e309", "-nan"})
      EXPECT_THAT(outcome({"--" + key + "=" + value}), AllOf(HasSubstr(key), HasSubstr("expected a number"))) << value;
    EXPECT_THAT(outcome({"--" + key + "=1e308"}), HasSubstr(key));
  }
  EXPECT_GT(reals, 15);
}

TEST_F(Ranges, WhatAllocatesOrStartsSomethingHasALimit) {
  for (const char* key : {"model.layers",
                          "model.hidden_size",
                          "model.heads",
                          "model.kv_heads",
                          "model.head_width",
                          "model.ffn_hidden_size",
                          "model.vocab_size",
                          "model.max_length",
                          "lora.rank",
                          "train.steps",
                          "train.sequence_length",
                          "train.micro_batch",
                          "train.global_batch",
                          "train.threads",
                          "memory.recompute_full_layers",
                          "memory.offload_activations",
                          "parallel.layers_per_collective",
                          "parallel.timeout_seconds",
                          "eval.batches",
                          "checkpoint.keep_last",
                          "log.profile_steps"})
    for (const char* value : {"4611686018427387904", "9223372036854775807", "-1"})
      EXPECT_THAT(outcome({std::string("--") + key + "=" + value}),
                  AllOf(HasSubstr(key), HasSubstr("expected an integer"), HasSubstr("at most")));
  EXPECT_THAT(outcome({"--model.layers=10001"}), HasSubstr("at least 1 and at most 10000"));
  EXPECT_THAT(outcome({"--train.threads=1025"}), HasSubstr("at most 1024"));
}

// Limits read as numbers, not as 1e+06 or 310 digits.
TEST_F(Ranges, ArePlainNumbers) {
  const std::string help = config_help();
  EXPECT_THAT(help, HasSubstr("at least 1 and at most 1000000000000;"));
  EXPECT_FALSE(std::regex_search(help, std::regex("an integer [^;]*e\\+")));
}

TEST_F(Ranges, ProductsThatOverflowNameTheirKeys) {
  EXPECT_THAT(outcome({"--train.steps=1000000000000", "--train.global_batch=1073741824", "--train.micro_batch=4"}),
              AllOf(HasSubstr("train.steps 1000000000000"), HasSubstr("train.global_batch 1073741824"),
                    HasSubstr("tokens than can be counted")));
  EXPECT_THAT(outcome({"--eval.batches=1000000000", "--train.global_batch=1073741824", "--train.micro_batch=4",
                       "--train.sequence_length=1024"}),
              HasSubstr("eval.batches"));
  EXPECT_THAT(outcome({"--train.micro_batch=1073741824", "--train.global_batch=1073741824", "--train.steps=1",
                       "--model.max_length=1024", "--train.sequence_length=1024"}),
              AllOf(HasSubstr("train.micro_batch 1073741824"), HasSubstr("train.sequence_length 1024")));
  EXPECT_THAT(outcome({"--train.steps=1000000000"}), "no error");
}

TEST_F(Ranges, MessagesArePrintable) {
  const std::string message = outcome({"--train.steps=\x1b[2J\xff"});
  EXPECT_THAT(printable(message), HasSubstr("\\u001B[2J"));
  EXPECT_EQ(printable(message).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace partita::internal
