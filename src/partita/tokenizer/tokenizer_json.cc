#include "partita/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/tokenizer/bpe_model_builder.h"
#include "partita/tokenizer/byte_level.h"

namespace partita {
namespace {

using nlohmann::json;

// A JSON object of the file with its path in it ("model", "pre_tokenizer"), for messages.
class Node {
 public:
  Node(const json& value, std::string origin, std::string path)
      : value_(value), origin_(std::move(origin)), path_(std::move(path)) {
    if (!value_.is_object()) fail("{}: {}: an object expected, found {}", origin_, path_, shown(value_));
  }

  // Fields that this program does not know could change the ids.
  void allow_only(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, value] : value_.items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        fail("{}: {} is not supported (found {})", origin_, path_of(name), shown(value));
      }
    }
  }

  // The field is absent or one of these.
  void expect(const char* name, std::initializer_list<json> supported) const {
    const auto found = value_.find(name);
    if (found == value_.end()) return;
    if (std::find(supported.begin(), supported.end(), *found) == supported.end()) {
      fail("{}: {} = {} is not supported: {} expected", origin_, path_of(name), shown(*found),
           json(*supported.begin()).dump());
    }
  }

  [[nodiscard]] const json& at(const char* name, bool (json::*is)() const, std::string_view kind) const {
    const auto found = value_.find(name);
    if (found == value_.end()) fail("{}: {} is missing ({} expected)", origin_, path_of(name), kind);
    if (!((*found).*is)()) fail("{}: {}: {} expected, found {}", origin_, path_of(name), kind, shown(*found));
    return *found;
  }
  [[nodiscard]] const json& array(const char* name) const { return at(name, &json::is_array, "an array"); }
  [[nodiscard]] std::string string(const char* name) const { return at(name, &json::is_string, "a string"); }
  [[nodiscard]] int64_t integer(const char* name) const { return at(name, &json::is_number_integer, "an integer"); }
  [[nodiscard]] Node child(const char* name) const {
    return {at(name, &json::is_object, "an object"), origin_, path_of(name)};
  }
  // The object `name`, if it is there and not null; its type must be `type`.
  [[nodiscard]] bool has_typed(const char* name, std::string_view type) const {
    if (!value_.contains(name) || value_[name].is_null()) return false;
    if (const std::string found = child(name).string("type"); found != type) {
      fail("{}: {} of type {} is not supported: {} expected", origin_, path_of(name), found, type);
    }
    return true;
  }

  [[nodiscard]] const json& value() const { return value_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] std::string path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }
  [[nodiscard]] static std::string shown(const json& value) {
    const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }

 private:
  const json& value_;
  std::string origin_, path_;
};

void check_pipeline(const Node& root) {
  root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  root.expect("version", {"1.0"});
  for (const char* name : {"truncation", "padding", "normalizer"}) root.expect(name, {nullptr});
  if (!root.has_typed("pre_tokenizer", "ByteLevel")) {
    fail("{}: pre_tokenizer is missing or null: ByteLevel expected", root.origin());
  }
  const Node splitter = root.child("pre_tokenizer");
  splitter.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (!splitter.value().contains("add_prefix_space")) {
    fail("{}: {} is missing: false expected", root.origin(), splitter.path_of("add_prefix_space"));
  }
  splitter.expect("add_prefix_space", {false});
  splitter.expect("use_regex", {true});
  for (const char* name : {"post_processor", "decoder"}) static_cast<void>(root.has_typed(name, "ByteLevel"));
}

void check_model(const Node& model) {
  model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                    "byte_fallback", "ignore_merges", "vocab", "merges"});
  model.expect("type", {"BPE"});
  model.expect("dropout", {nullptr, 0.0});
  model.expect("continuing_subword_prefix", {nullptr, ""});
  model.expect("end_of_word_suffix", {nullptr, ""});
  model.expect("ignore_merges", {false});
  // unk_token, fuse_unk and byte_fallback are about bytes without a token, and there are none.
}

// "a b", or ["a", "b"] as newer files have it.
void add_merge(BpeModelBuilder& builder, const json& merge, const Node& model, size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    builder.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    return;
  }
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      builder.add_merge(text.substr(0, space), text.substr(space + 1));
      return;
    }
  }
  fail("{}: model.merges[{}]: \"left right\" or [left, right] expected, found {}", model.origin(), index,
       Node::shown(merge));
}

void add_special_tokens(BpeModelBuilder& builder, const Node& root) {
  if (!root.value().contains("added_tokens")) return;
  size_t index = 0;
  for (const json& item : root.array("added_tokens")) {
    const Node token(item, root.origin(), fmt::format("added_tokens[{}]", index++));
    token.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    if (!token.at("special", &json::is_boolean, "true or false").get<bool>()) {
      fail("{}: {} = false (\"{}\") is not supported: true expected", root.origin(), token.path_of("special"),
           token.string("content"));
    }
    builder.add_special(token.string("content"), token.integer("id"));
  }
}

std::string quoted(const std::string& text) { return json(text).dump(); }

}  // namespace

BpeModel parse_tokenizer_json(std::string_view text, std::string_view origin) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::exception& error) {
    fail("{}: not JSON: {}", origin, error.what());
  }
  const Node root(document, std::string(origin), "");
  check_pipeline(root);
  const Node model = root.child("model");
  check_model(model);
  BpeModelBuilder builder{std::string(origin)};
  for (const auto& [name, id] : model.child("vocab").value().items()) {
    if (!id.is_number_integer()) {
      fail("{}: model.vocab[{}]: an integer expected, found {}", origin, quoted(name), Node::shown(id));
    }
    builder.add_token(name, id.get<int64_t>());
  }
  add_special_tokens(builder, root);
  size_t index = 0;
  for (const json& merge : model.array("merges")) add_merge(builder, merge, model, index++);
  return builder.build();
}

BpeModel load_tokenizer_json(const std::filesystem::path& path) {
  return parse_tokenizer_json(read_file(path), path.string());
}

std::string format_tokenizer_json(const BpeModel& model) {
  const auto is_special = [&model](TokenId id) {
    return std::find(model.special.begin(), model.special.end(), id) != model.special.end();
  };
  const auto name_of = [&](TokenId id) {
    const std::string& bytes = model.tokens[static_cast<size_t>(id)];
    return is_special(id) ? bytes : to_printable(bytes);
  };
  std::string out = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)";
  const char* separator = "\n";
  for (TokenId id : model.special) {
    out += fmt::format(R"({}    {{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false, )"
                       R"("normalized": false, "special": true}})",
                       separator, id, quoted(name_of(id)));
    separator = ",\n";
  }
  out += R"(
  ],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {)";
  separator = "\n";
  for (TokenId id = 0; id < model.vocab_size(); ++id) {
    out += fmt::format("{}      {}: {}", separator, quoted(name_of(id)), id);
    separator = ",\n";
  }
  out += "\n    },\n    \"merges\": [";
  separator = "\n";
  for (const BpeMerge& merge : model.merges) {
    // Printable names hold no space, so that the older form, which every version of `tokenizers` reads, is enough.
    out += fmt::format("{}      {}", separator, quoted(name_of(merge.left) + " " + name_of(merge.right)));
    separator = ",\n";
  }
  out += "\n    ]\n  }\n}\n";
  return out;
}

void save_tokenizer_json(const BpeModel& model, const std::filesystem::path& path) {
  write_file(path, format_tokenizer_json(model));
}

}  // namespace partita
