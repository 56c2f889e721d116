#include "partita/interop/side_files.h"

#include <array>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/interop/json_fields.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array kOfTokenizer = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                     "chat_template.jinja", "chat_template.json"};
constexpr std::array kTokenizers = {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"};
constexpr const char* kTemplates = "additional_chat_templates";  // folder used for more than one template

void add_if_there(NamedFiles& files, const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  if (fs::is_regular_file(folder / name, ignored)) files.try_emplace(name, folder / name);
}

// The token with this id; empty if the tokenizer cannot be read or lacks the id.
std::string token_text(const Tokenizer& tokenizer, int64_t id) {
  if (id < 0 || id >= tokenizer.vocab_size()) return "";
  const std::array<TokenId, 1> ids = {static_cast<TokenId>(id)};
  return tokenizer.decode(ids);
}

// Use transformers' generic class for tokenizer.json. Without this file it would choose the class of the model kind,
// with that class's special tokens.
json tokenizer_config(const ModelSource& source, const Tokenizer& tokenizer) {
  json root = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", source.model.max_length},
               {"clean_up_tokenization_spaces", false}};
  const json ids = token_ids(source);
  for (const char* name : {"bos", "eos", "pad"}) {
    json id = ids.value(std::string(name) + "_token_id", json());
    if (id.is_array() && !id.empty()) id = id[0];
    if (!id.is_number_integer()) continue;
    if (const std::string text = token_text(tokenizer, id.get<int64_t>()); !text.empty())
      root[std::string(name) + "_token"] = text;
  }
  return root;
}

}  // namespace

NamedFiles tokenizer_side_files(const fs::path& folder) {
  NamedFiles files;
  for (const char* name : kOfTokenizer) add_if_there(files, folder, name);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / kTemplates, ignored))
    if (entry.path().extension() == ".jinja")
      add_if_there(files, folder, fs::path(kTemplates) / entry.path().filename());
  return files;
}

NamedFiles side_files(const ModelSource& source) {
  NamedFiles files;
  for (const fs::path& folder : source.side_folders) {
    for (const char* name : kTokenizers) add_if_there(files, folder, name);
    if (folder == source.tokenizer.parent_path()) add_if_there(files, folder, source.tokenizer.filename());
    files.merge(tokenizer_side_files(folder));
  }
  return files;
}

std::map<std::string, std::string> missing_side_files(const ModelSource& source, const NamedFiles& files) {
  std::map<std::string, std::string> texts;
  if (!source.generation.fields.empty()) {
    texts[kGenerationFile] = source.generation.fields.dump(2) + "\n";
  } else if (json ids = token_ids(source); !says_nothing(ids.value("eos_token_id", json()))) {
    std::erase_if(ids.get_ref<json::object_t&>(), [](const auto& item) { return item.second.is_null(); });
    texts[kGenerationFile] = ids.dump(2) + "\n";
  }
  const bool of_tokenizer_json = source.tokenizer.filename() == "tokenizer.json";
  if (!source.trained_here || !of_tokenizer_json || files.contains("tokenizer_config.json")) return texts;
  try {
    texts["tokenizer_config.json"] = tokenizer_config(source, *load_tokenizer(source.tokenizer))
                                         .dump(2, ' ', false, json::error_handler_t::replace) +
                                     "\n";
  } catch (const Error& error) {  // a format that we cannot load, but transformers may
    log::warn("no tokenizer_config.json is written: {}", error.what());
  }
  return texts;
}

json token_ids(const ModelSource& source) {
  if (!source.tokens.empty()) return source.tokens;
  json tokens = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  bool known = false;
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto found = source.generation.fields.find(name);
    if (found == source.generation.fields.end()) continue;
    tokens[name] = *found;
    known = true;
  }
  if (known || source.tokenizer.empty()) return tokens;
  if (const auto end = load_tokenizer(source.tokenizer)->end_of_document()) {
    tokens["eos_token_id"] = *end;
    if (source.model.kind == ModelKind::gpt2) tokens["bos_token_id"] = *end;  // GPT-2 begins a text with it
  }
  return tokens;
}

}  // namespace partita::internal
