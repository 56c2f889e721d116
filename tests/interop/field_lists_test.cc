// Every field that transformers and PEFT write is in one of our lists, and is handled as listed. make_hf_fields.py
// generates tests/golden/hf_fields.json from their classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "partita/base/file.h"
#include "partita/base/json.h"
#include "partita/interop/generation_config.h"
#include "partita/interop/hf_config.h"
#include "partita/interop/hf_fields.h"
#include "partita/interop/peft_config.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const json& golden() {
  static const json fields = read_json(PARTITA_SOURCE_DIR "/tests/golden/hf_fields.json");
  return fields;
}

// A kind of file: its list, a sound file, and its reader, which returns the warnings.
struct Kind {
  const char* name;
  std::span<const KnownField> fields;
  json sound;
  std::vector<std::string> (*read)(const json&);
  std::set<std::string_view> free;  // read fields that take any value
};

std::vector<std::string> read_config(const json& file) {
  return parse_hf_config(file.dump(), "dir/file.json").warnings;
}
std::vector<std::string> read_rope(const json& rope) {
  return read_config({{"model_type", "llama"}, {"rope_parameters", rope}});
}
std::vector<std::string> read_generation(const json& file) {
  return parse_generation_config(file, "dir/file.json").warnings;
}
std::vector<std::string> read_lora(const json& file) {
  return parse_peft_config(file.dump(), "dir/file.json", ModelKind::llama).warnings;
}

std::vector<Kind> kinds() {
  const std::set<std::string_view> ids = {"bos_token_id", "eos_token_id", "pad_token_id"};
  return {{"GPT2Config", hf_fields(ModelKind::gpt2), golden()["GPT2Config"], read_config, ids},
          {"LlamaConfig", hf_fields(ModelKind::llama), golden()["LlamaConfig"], read_config, ids},
          {"RopeParameters",
           hf_rope_fields(),
           {{"rope_type", "llama3"},
            {"rope_theta", 1e4},
            {"factor", 8},
            {"low_freq_factor", 1},
            {"high_freq_factor", 4},
            {"original_max_position_embeddings", 32}},
           read_rope,
           {"type"}},  // rope_type comes first
          {"GenerationConfig", generation_fields(), golden()["GenerationConfig"], read_generation, {}},
          {"LoraConfig", peft_fields(), golden()["LoraConfig"], read_lora, {"base_model_name_or_path"}}};
}

TEST(FieldLists, HaveEveryFieldOfTransformersAndPeft) {
  for (const Kind& kind : kinds()) {
    ASSERT_GE(golden()[kind.name].size(), 15U) << kind.name;
    for (const auto& [name, value] : golden()[kind.name].items())
      EXPECT_NE(find_field(kind.fields, name), nullptr) << kind.name << "." << name;
  }
}

TEST(FieldLists, NameEachFieldOnce) {
  for (const Kind& kind : kinds()) {
    std::set<std::string_view> names;
    for (const KnownField& field : kind.fields) {
      EXPECT_TRUE(names.insert(field.name).second) << kind.name << "." << field.name;
      EXPECT_EQ(field.only.empty(), field.use != FieldUse::only) << kind.name << "." << field.name;
      if (field.use == FieldUse::only) {
        EXPECT_TRUE(try_parse_json(field.only)) << field.only;
      }
    }
  }
}

TEST(FieldLists, TakeFilesOfDefaults) {
  for (const Kind& kind : kinds()) EXPECT_THAT(kind.read(kind.sound), IsEmpty()) << kind.name;
}

std::string said_of(const Kind& kind, std::string_view name, const json& value) {
  json file = kind.sound;
  file[std::string(name)] = value;
  try {
    const std::vector<std::string> warnings = kind.read(file);
    return warnings.empty() ? "nothing" : warnings[0];
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(FieldLists, NoValueThatChangesTheFunctionIsTakenInSilence) {
  for (const Kind& kind : kinds()) {
    for (const KnownField& field : kind.fields) {
      if (field.use != FieldUse::only) continue;
      for (const json& value : {json(12345), json("other"), json{{"a", 1}}})
        EXPECT_THAT(said_of(kind, field.name, value), AllOf(HasSubstr("dir/file.json"), HasSubstr(field.name)))
            << kind.name;
      EXPECT_EQ(said_of(kind, field.name, nullptr), "nothing") << kind.name << "." << field.name;
      EXPECT_EQ(said_of(kind, field.name, json::parse(field.only)), "nothing") << kind.name << "." << field.name;
    }
  }
}

// The list says that a field is read: then a value of no sense is seen.
TEST(FieldLists, WhatIsReadIsRead) {
  for (const Kind& kind : kinds()) {
    for (const KnownField& field : kind.fields) {
      if (field.use != FieldUse::read || kind.free.contains(field.name)) continue;
      EXPECT_THAT(said_of(kind, field.name, {{"no", "sense"}}), HasSubstr(field.name)) << kind.name;
    }
  }
}

TEST(FieldLists, HarmlessFieldsAreTakenWithAnyValue) {
  for (const Kind& kind : kinds()) {
    for (const KnownField& field : kind.fields) {
      if (field.use != FieldUse::harmless) continue;
      EXPECT_EQ(said_of(kind, field.name, {{"some", "value"}}), "nothing") << kind.name << "." << field.name;
    }
  }
}

TEST(FieldLists, UnknownFieldsAreNamed) {
  for (const Kind& kind : kinds()) {
    EXPECT_THAT(said_of(kind, "future_feature", 3), AllOf(HasSubstr("dir/file.json"), HasSubstr("future_feature = 3")));
    for (const json& nothing : {json(), json(false), json(""), json::array(), json::object()})
      EXPECT_EQ(said_of(kind, "future_feature", nothing), "nothing") << kind.name << nothing;
  }
}

}  // namespace
}  // namespace partita::internal
