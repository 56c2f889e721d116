#include "partita/tokenizer/formats/tokenizer_config.h"

#include <algorithm>
#include <array>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/base/log.h"
#include "partita/tokenizer/formats/json_node.h"

namespace partita::internal {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kTokenFields = {"bos_token", "eos_token", "unk_token", "pad_token",
                                                          "sep_token", "cls_token", "mask_token"};
constexpr std::array<std::string_view, 5> kTokenLists = {"additional_special_tokens", "extra_special_tokens",
                                                         "added_tokens_decoder", "model_specific_special_tokens",
                                                         "chat_control_tokens"};
constexpr std::array<std::string_view, 6> kUsed = {"tokenizer_class",      "add_bos_token",    "add_eos_token",
                                                   "split_special_tokens", "add_prefix_space", "tokenizer_file"};
// Fields about lengths, decoding, chat and other programs, and of old classes that tokenizer.json does not need.
constexpr std::array<std::string_view, 33> kHarmless = {
    "model_max_length",
    "max_length",
    "max_len",
    "verbose",
    "padding_side",
    "truncation_side",
    "truncation_strategy",
    "stride",
    "pad_to_multiple_of",
    "pad_token_type_id",
    "model_input_names",
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "chat_template",
    "response_template",
    "response_schema",
    "name_or_path",
    "special_tokens_map_file",
    "backend",
    "is_local",
    "local_files_only",
    "processor_class",
    "auto_map",
    "legacy",
    "use_default_system_prompt",
    "sp_model_kwargs",
    "spaces_between_special_tokens",
    "do_lower_case",
    "errors",
    "trim_offsets",
    "use_fast",
    "from_slow",
    "fix_mistral_regex"};

// "x", or {"content": "x", ...} as AddedToken is serialized; empty for null.
std::optional<std::string> spelling_of(const json& token, const JsonNode& root, std::string_view field) {
  if (token.is_null()) return std::nullopt;
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string())
    return token["content"].get<std::string>();
  fail("{}: {}: a token expected, found {}", root.origin(), field, JsonNode::shown(token));
}

void read_tokens(const JsonNode& root, TokenizerConfig& config) {
  const auto add = [&](std::string_view field, const json& token) {
    if (auto spelling = spelling_of(token, root, field)) config.tokens.push_back({std::string(field), *spelling});
  };
  for (const std::string_view field : kTokenFields)
    if (const auto found = root.value().find(field); found != root.value().end()) add(field, *found);
  for (const std::string_view field : kTokenLists) {
    const auto found = root.value().find(field);
    if (found == root.value().end()) continue;
    for (const json& token : *found) add(field, token);  // elements of a list, or values of an object
  }
}

// Files older than the complete tokenizer_config.json: only names of tokens.
void read_older_files(const std::filesystem::path& folder, TokenizerConfig& config) {
  const std::filesystem::path map = folder / "special_tokens_map.json", added = folder / "added_tokens.json";
  if (std::filesystem::exists(map)) {
    config.file = folder;
    const json document = parse_json(read_tokenizer_file(map), map.string());
    read_tokens(JsonNode(document, map.string(), ""), config);
  }
  if (std::filesystem::exists(added)) {
    config.file = folder;
    const json document = parse_json(read_tokenizer_file(added), added.string());
    for (const auto& [spelling, id] : JsonNode(document, added.string(), "").value().items())
      config.tokens.push_back({"added_tokens.json", spelling});
  }
}

std::optional<bool> switch_of(const JsonNode& root, const char* name) {
  return root.has(name) ? std::optional(root.boolean(name)) : std::nullopt;
}

bool puts_a_space_in_front(const Tokenizer& tokenizer) { return tokenizer.encode("x") == tokenizer.encode(" x"); }

}  // namespace

bool is_known_tokenizer_field(std::string_view name) {
  const auto in = [name](const auto& list) { return std::ranges::find(list, name) != list.end(); };
  // Names of single tokens and ids, including unusual ones of some models: image_token, boi_token_id.
  return in(kUsed) || in(kTokenFields) || in(kTokenLists) || in(kHarmless) || name.ends_with("_token") ||
         name.ends_with("_token_id");
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  read_older_files(folder, config);
  const std::filesystem::path file = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(file)) return config;
  config.file = file;
  const json document = parse_json(read_tokenizer_file(file), file.string());
  const JsonNode root(document, file.string(), "");
  if (root.has("tokenizer_class")) config.tokenizer_class = root.string("tokenizer_class");
  config.add_bos_token = switch_of(root, "add_bos_token");
  config.add_eos_token = switch_of(root, "add_eos_token");
  config.add_prefix_space = switch_of(root, "add_prefix_space");
  config.split_special_tokens = root.boolean_or("split_special_tokens", false);
  read_tokens(root, config);
  std::string unknown;
  for (const auto& [name, value] : root.value().items()) {
    if (is_known_tokenizer_field(name)) continue;
    unknown += (unknown.empty() ? "" : ", ") + name;
  }
  if (!unknown.empty()) log::info("{}: not known and not used: {}", file.string(), unknown);
  return config;
}

void check_tokenizer_config(const TokenizerConfig& config, const Tokenizer& tokenizer, TokenizerFormat format) {
  if (config.file.empty()) return;
  const std::string origin = config.file.string();
  if (config.split_special_tokens)
    fail(
        "{}: split_special_tokens = true is not supported: remove it, and switch special tokens off where texts are "
        "read (data.allow_special = false, --no-allow-special)",
        origin);
  const bool of_gpt2 = format == TokenizerFormat::gpt2 || config.tokenizer_class.starts_with("GPT2Tokenizer");
  if (of_gpt2 && config.add_prefix_space && *config.add_prefix_space != puts_a_space_in_front(tokenizer))
    fail("{}: add_prefix_space = {} contradicts the tokenizer's own file, which has {}", origin,
         *config.add_prefix_space, !*config.add_prefix_space);
  if (format != TokenizerFormat::json && config.add_eos_token.value_or(false))
    fail("{}: add_eos_token = true is not supported next to {}: false expected (--append-eod ends documents)", origin,
         format == TokenizerFormat::gpt2 ? "vocab.json" : "tokenizer.model");
  if (format == TokenizerFormat::gpt2 && config.add_bos_token.value_or(false))
    fail(
        "{}: add_bos_token = true is not supported next to vocab.json: only a tokenizer.json defines what is put in "
        "front",
        origin);
  const auto encoder = tokenizer.make_encoder({.allow_special = true});
  std::string missing;
  for (const auto& [field, spelling] : config.tokens) {
    std::vector<TokenId> ids;
    encoder->encode(spelling, ids);
    if (format != TokenizerFormat::json || ids.size() == 1 || spelling.empty()) continue;
    missing += fmt::format("{}{} {}", missing.empty() ? "" : ", ", field, json(spelling).dump());
  }
  if (!missing.empty())
    log::info("{}: not tokens of tokenizer.json, and so ordinary text (transformers would add them): {}", origin,
              missing);
}

}  // namespace partita::internal
