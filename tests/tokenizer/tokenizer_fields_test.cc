// Every component and field in files of `tokenizers` and `transformers`, as extracted from the libraries by
// tests/golden/make_tokenizer_fields.py: each is applied, harmless, or rejected by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "partita/base/file.h"
#include "partita/tokenizer/formats/tokenizer_config.h"
#include "partita/tokenizer/formats/tokenizer_json.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json golden(const char* name) {
  return json::parse(read_file(std::string(PARTITA_SOURCE_DIR "/tests/golden/") + name));
}

std::string refusal(const json& document) {
  return error_message([&] { (void)parse_tokenizer_json(document.dump(), "t.json"); });
}

// The golden tokenizer with the component where its kind may stand.
json with(const std::string& section, const json& component) {
  json document = golden("tokenizer.json");
  if (section == "pre_tokenizer" && component["type"] != "ByteLevel") {
    document[section] = {{"type", "Sequence"}, {"pretokenizers", json::array({component, document[section]})}};
  } else if (section == "decoder" && component["type"] == "Strip") {
    document[section] = {{"type", "Sequence"}, {"decoders", json::array({{{"type", "Fuse"}}, component})}};
  } else if (component["type"] == "BertProcessing" || component["type"] == "RobertaProcessing" || section != "model") {
    document[section] = component;
  } else {
    document["model"]["type"] = component["type"];
  }
  return document;
}

const std::map<std::string, std::set<std::string>> kRead = {
    {"normalizer", {"NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace", "Strip", "StripAccents", "Sequence"}},
    {"pre_tokenizer", {"ByteLevel", "Digits", "Metaspace", "Punctuation", "Split", "WhitespaceSplit", "Sequence"}},
    {"post_processor", {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"}},
    {"decoder", {"ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Replace", "Sequence", "Strip"}},
    {"model", {"BPE", "Unigram"}}};

TEST(TokenizerFields, EachComponentIsReadOrRefusedByName) {
  const json fields = golden("tokenizer_fields.json");
  int refused = 0;
  for (const auto& [section, components] : fields["components"].items()) {
    std::set<std::string> missing = kRead.at(section);
    for (const auto& [name, component] : components.items()) {
      const std::string message = refusal(with(section, component));
      if (missing.erase(name) > 0 && name != "Unigram") {
        EXPECT_EQ(message, "no error") << section << " " << name;
      } else {
        EXPECT_THAT(message, HasSubstr(name)) << section;
        EXPECT_THAT(message, HasSubstr("not supported")) << section << " " << name;
        ++refused;
      }
    }
    EXPECT_TRUE(missing.empty()) << section << ": the library has no " << *missing.begin();
  }
  EXPECT_EQ(refused, 15);  // Unigram among them: not with a ByteLevel pre-tokenizer
}

TEST(TokenizerFields, AFieldThatTheLibraryDoesNotHaveIsRefusedByName) {
  const json fields = golden("tokenizer_fields.json");
  for (const auto& [section, components] : fields["components"].items()) {
    for (json component : components) {
      if (!kRead.at(section).contains(component["type"]) || section == "model") continue;
      component["a_new_field"] = 1;
      EXPECT_THAT(refusal(with(section, component)), HasSubstr("a_new_field is not supported (found 1)"))
          << section << " " << component;
    }
  }
  json document = golden("tokenizer.json");
  document["model"]["a_new_field"] = 1;
  EXPECT_THAT(refusal(document), HasSubstr("model.a_new_field is not supported"));
  document = golden("tokenizer.json");
  document["added_tokens"][0]["a_new_field"] = 1;
  EXPECT_THAT(refusal(document), HasSubstr("added_tokens[0].a_new_field is not supported"));
  document = golden("tokenizer.json");
  document["a_new_field"] = 1;
  EXPECT_THAT(refusal(document), HasSubstr("a_new_field is not supported"));
  // All that the library writes is known.
  document = golden("tokenizer.json");
  for (const json& name : fields["root"]) document.emplace(name, nullptr);
  for (const auto& [name, value] : fields["components"]["model"]["BPE"].items()) document["model"].emplace(name, value);
  for (const json& name : fields["added_token"]) EXPECT_TRUE(document["added_tokens"][0].contains(name)) << name;
  EXPECT_EQ(refusal(document), "no error");
}

TEST(TokenizerFields, FieldsOfTokenizerConfigAreKnown) {
  // Of calls in Python: no file has them.
  const std::set<std::string> kCalls = {"_json_padding",
                                        "_json_truncation",
                                        "_spm_precompiled_charsmap",
                                        "files_loaded",
                                        "gguf_file",
                                        "merges",
                                        "vocab",
                                        "vocab_file",
                                        "post_processor",
                                        "tokenizer",
                                        "tokenizer_object",
                                        "tokenizer_padding",
                                        "tokenizer_truncation",
                                        "unk_id"};
  for (const json& name : golden("tokenizer_fields.json")["config"])
    EXPECT_TRUE(is_known_tokenizer_field(name.get<std::string>()) || kCalls.contains(name)) << name;
  EXPECT_FALSE(is_known_tokenizer_field("a_new_field"));
}

}  // namespace
}  // namespace partita::internal
