#include "partita/tokenizer/formats/tokenizer_json_parts.h"

#include <limits>

#include "partita/base/error.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

using nlohmann::json;

// Components of real files have at most about twenty parts.
constexpr size_t kMostParts = 256;
void check_parts(size_t parts, const JsonNode& root, const char* name) {
  if (parts > kMostParts) fail("{}: {} has {} parts, at most {} are supported", root.origin(), name, parts, kMostParts);
}

[[noreturn]] void refuse_type(const JsonNode& node, std::string_view expected) {
  fail("{} of type {} is not supported: {} expected", node.place(), node.string("type"), expected);
}

// The String of a pattern. An empty one matches between all characters in the reference.
std::string read_text_to_find(const JsonNode& pattern) {
  std::string text = pattern.string("String");
  if (text.empty()) {
    fail("{}: {} = \"\" is not supported: one character or more expected", pattern.origin(), pattern.path_of("String"));
  }
  return text;
}

// {"String": "x"} or {"Regex": "x"}
Matcher read_pattern(const JsonNode& parent) {
  const JsonNode node = parent.child("pattern");
  node.allow_only({"String", "Regex"});
  if (node.has("String")) return Matcher::text(read_text_to_find(node));
  return Matcher::regex(node.string("Regex"), node.origin() + ": " + node.path_of("Regex"));
}

void add_normalizers(const JsonNode& node, Normalizer& out) {
  const std::string type = node.string("type");
  if (type == "Sequence") {
    node.allow_only({"type", "normalizers"});
    node.for_each("normalizers", [&](const JsonNode& item) { add_normalizers(item, out); });
    return;
  }
  constexpr std::pair<const char*, NormalForm> kForms[] = {
      {"NFC", NormalForm::nfc}, {"NFD", NormalForm::nfd}, {"NFKC", NormalForm::nfkc}, {"NFKD", NormalForm::nfkd}};
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    node.allow_only({"type"});
    out.steps.emplace_back(form);
    return;
  }
  if (type == "Prepend") {
    node.allow_only({"type", "prepend"});
    out.steps.emplace_back(PrependStep{node.string("prepend")});
  } else if (type == "Replace") {
    node.allow_only({"type", "pattern", "content"});
    out.steps.emplace_back(ReplaceStep{read_pattern(node), node.string("content")});
  } else if (type == "Strip") {
    node.allow_only({"type", "strip_left", "strip_right"});
    out.steps.emplace_back(StripStep{node.boolean("strip_left"), node.boolean("strip_right")});
  } else if (type == "StripAccents") {
    node.allow_only({"type"});
    out.steps.emplace_back(StripAccentsStep{});
  } else {
    refuse_type(node, "NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, StripAccents or Sequence");
  }
}

SplitBehavior read_behavior(const JsonNode& node) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"Contiguous", SplitBehavior::contiguous},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next}};
  const std::string found = node.string("behavior");
  for (const auto& [name, behavior] : kNames) {
    if (found == name) return behavior;
  }
  fail("{}: {} = \"{}\" is not supported: Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext expected",
       node.origin(), node.path_of("behavior"), found);
}

MetaspaceStep read_metaspace(const JsonNode& node) {
  node.allow_only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  MetaspaceStep step;
  step.replacement = node.string("replacement");
  if (step.replacement.empty() || decode_utf8(step.replacement, 0).bytes != step.replacement.size())
    fail("{}: {} = {}: one character expected", node.origin(), node.path_of("replacement"),
         json(step.replacement).dump());
  step.split = node.boolean_or("split", true);
  const std::string scheme = node.has("prepend_scheme") ? node.string("prepend_scheme") : "always";
  using Prepend = MetaspaceStep::Prepend;
  if (scheme == "always") {
    step.prepend = Prepend::always;
  } else if (scheme == "first") {
    step.prepend = Prepend::first;
  } else if (scheme == "never") {
    step.prepend = Prepend::never;
  } else {
    fail("{}: {} = \"{}\" is not supported: always, first or never expected", node.origin(),
         node.path_of("prepend_scheme"), scheme);
  }
  // Files older than prepend_scheme.
  if (!node.boolean_or("add_prefix_space", true)) step.prepend = Prepend::never;
  return step;
}

void add_pre_tokenizers(const JsonNode& node, PreTokenizer& out) {
  const std::string type = node.string("type");
  if (type == "Sequence") {
    node.allow_only({"type", "pretokenizers"});
    node.for_each("pretokenizers", [&](const JsonNode& item) { add_pre_tokenizers(item, out); });
  } else if (type == "ByteLevel") {
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    // A second ByteLevel would convert the printable form again: no vocabulary contains that.
    if (out.byte_level()) fail("{}: a second ByteLevel is not supported: one expected", node.place());
    out.steps.emplace_back(ByteLevelStep{node.boolean("add_prefix_space"), node.boolean_or("use_regex", true)});
  } else if (type == "Split") {
    node.allow_only({"type", "pattern", "behavior", "invert"});
    out.steps.emplace_back(SplitStep{read_pattern(node), read_behavior(node), node.boolean_or("invert", false)});
  } else if (type == "Digits") {
    node.allow_only({"type", "individual_digits"});
    out.steps.emplace_back(SplitStep{
        Matcher::digits(), node.boolean("individual_digits") ? SplitBehavior::isolated : SplitBehavior::contiguous});
  } else if (type == "Punctuation") {
    node.allow_only({"type", "behavior"});
    out.steps.emplace_back(
        SplitStep{Matcher::punctuation(), node.has("behavior") ? read_behavior(node) : SplitBehavior::isolated});
  } else if (type == "WhitespaceSplit") {
    node.allow_only({"type"});
    out.steps.emplace_back(SplitStep{Matcher::white_space(), SplitBehavior::removed});
  } else if (type == "Metaspace") {
    // Each Metaspace would prepend its symbol to every piece of the previous one.
    for (const PreTokenizerStep& step : out.steps)
      if (std::holds_alternative<MetaspaceStep>(step))
        fail("{}: a second Metaspace is not supported: one expected", node.place());
    out.steps.emplace_back(read_metaspace(node));
  } else {
    refuse_type(node, "ByteLevel, Split, Digits, Punctuation, WhitespaceSplit, Metaspace or Sequence");
  }
}

TokenId read_id(const JsonNode& node, const char* field, const json& id) {
  if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<TokenId>::max()) {
    fail("{}: {}: an id, 0 or more, expected, found {}", node.origin(), node.path_of(field), JsonNode::shown(id));
  }
  return id.get<TokenId>();
}

// [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]
void add_template(const JsonNode& node, SurroundingTokens& out) {
  node.allow_only({"type", "single", "pair", "special_tokens"});
  const JsonNode known = node.child("special_tokens");
  bool after_text = false;
  node.for_each("single", [&](const JsonNode& item) {
    item.allow_only({"SpecialToken", "Sequence"});
    if (item.has("Sequence")) {
      if (after_text) fail("{}: the text occurs twice in {}", node.origin(), node.path_of("single"));
      after_text = true;
      return;
    }
    const std::string name = item.child("SpecialToken").string("id");
    const JsonNode token = known.child(name.c_str());
    for (const json& id : token.array("ids"))
      (after_text ? out.after : out.before).push_back(read_id(token, "ids", id));
  });
}

// ["</s>", 2]
TokenId read_name_and_id(const JsonNode& node, const char* name) {
  const json& pair = node.array(name);
  if (pair.size() != 2) {
    fail("{}: {}: [name, id] expected, found {}", node.origin(), node.path_of(name), JsonNode::shown(pair));
  }
  return read_id(node, name, pair[1]);
}

void add_post_processors(const JsonNode& node, SurroundingTokens& out) {
  const std::string type = node.string("type");
  if (type == "Sequence") {
    node.allow_only({"type", "processors"});
    node.for_each("processors", [&](const JsonNode& item) { add_post_processors(item, out); });
  } else if (type == "TemplateProcessing" || type == "RobertaProcessing" || type == "BertProcessing") {
    if (!out.before.empty() || !out.after.empty()) fail("{}: a second one that adds tokens", node.place());
    if (type == "TemplateProcessing") return add_template(node, out);
    node.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    out.before = {read_name_and_id(node, "cls")};
    out.after = {read_name_and_id(node, "sep")};
  } else if (type == "ByteLevel") {  // affects only offsets
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else {
    refuse_type(node, "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing or Sequence");
  }
}

// Decoder applies its stages in this order regardless of the file, so the file must use the same order.
enum class DecoderStage { none, byte_level, metaspace, replace, byte_fallback, fuse, strip };
struct DecoderState {
  Decoder decoder;
  DecoderStage reached = DecoderStage::none;
};

DecoderStage decoder_stage(const JsonNode& node, const std::string& type) {
  constexpr std::pair<const char*, DecoderStage> kStages[] = {{"ByteLevel", DecoderStage::byte_level},
                                                              {"Metaspace", DecoderStage::metaspace},
                                                              {"Replace", DecoderStage::replace},
                                                              {"ByteFallback", DecoderStage::byte_fallback},
                                                              {"Fuse", DecoderStage::fuse},
                                                              {"Strip", DecoderStage::strip}};
  for (const auto& [name, stage] : kStages) {
    if (type == name) return stage;
  }
  refuse_type(node, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace or Sequence");
}

void add_decoders(const JsonNode& node, DecoderState& out) {
  const std::string type = node.string("type");
  if (type == "Sequence") {
    node.allow_only({"type", "decoders"});
    node.for_each("decoders", [&](const JsonNode& item) { add_decoders(item, out); });
    return;
  }
  const DecoderStage stage = decoder_stage(node, type);
  if (out.reached == DecoderStage::byte_level || stage < out.reached ||
      (stage == DecoderStage::byte_level && out.reached != DecoderStage::none) ||
      (stage == DecoderStage::metaspace && out.reached == stage)) {
    fail(
        "{} of type {} is not supported at this place: ByteLevel alone, or Metaspace, Replace, ByteFallback, Fuse and "
        "Strip in this order expected",
        node.place(), type);
  }
  if (stage == DecoderStage::strip && out.reached < DecoderStage::fuse) {
    fail("{} of type Strip is not supported in front of Fuse", node.place());
  }
  out.reached = stage;
  if (stage == DecoderStage::byte_level) {
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else if (stage == DecoderStage::fuse) {
    node.allow_only({"type"});
  } else if (stage == DecoderStage::byte_fallback) {
    node.allow_only({"type"});
    out.decoder.byte_fallback = true;
  } else if (stage == DecoderStage::replace) {
    node.allow_only({"type", "pattern", "content"});
    const JsonNode pattern = node.child("pattern");
    pattern.allow_only({"String"});
    out.decoder.replacements.emplace_back(read_text_to_find(pattern), node.string("content"));
  } else if (stage == DecoderStage::strip) {
    node.allow_only({"type", "content", "start", "stop"});
    node.expect("content", {" "});
    node.expect("stop", {0});
    out.decoder.strip_front += static_cast<size_t>(std::max<int64_t>(node.integer("start"), 0));
  } else if (stage == DecoderStage::metaspace) {
    const MetaspaceStep step = read_metaspace(node);
    if (step.prepend != MetaspaceStep::Prepend::never) out.decoder.left_out_of_first = step.replacement;
    out.decoder.replacements.emplace_back(step.replacement, " ");
  }
}

}  // namespace

Normalizer read_normalizer(const JsonNode& root) {
  Normalizer normalizer;
  if (root.has("normalizer")) add_normalizers(root.child("normalizer"), normalizer);
  normalizer.origin = root.origin() + ": normalizer";
  check_parts(normalizer.steps.size(), root, "normalizer");
  return normalizer;
}

PreTokenizer read_pre_tokenizer(const JsonNode& root) {
  PreTokenizer pre_tokenizer;
  if (root.has("pre_tokenizer")) add_pre_tokenizers(root.child("pre_tokenizer"), pre_tokenizer);
  check_parts(pre_tokenizer.steps.size(), root, "pre_tokenizer");
  return pre_tokenizer;
}

std::optional<Decoder> read_decoder(const JsonNode& root) {
  DecoderState state;
  if (root.has("decoder")) add_decoders(root.child("decoder"), state);
  check_parts(state.decoder.replacements.size(), root, "decoder");
  if (state.reached == DecoderStage::byte_level || !root.has("decoder")) return std::nullopt;
  return state.decoder;
}

std::vector<AddedToken> read_added_tokens(const JsonNode& root) {
  std::vector<AddedToken> tokens;
  if (!root.has("added_tokens")) return tokens;
  root.for_each("added_tokens", [&](const JsonNode& node) {
    node.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    static_cast<void>(node.integer("id"));
    // The reference skips it and gives its id to the next token.
    if (node.string("content").empty())
      fail("{}.content is empty: a token of one character or more expected", node.place());
    tokens.push_back({.content = node.string("content"),
                      .id = read_id(node, "id", node.value()["id"]),
                      .single_word = node.boolean_or("single_word", false),
                      .lstrip = node.boolean_or("lstrip", false),
                      .rstrip = node.boolean_or("rstrip", false),
                      .normalized = node.boolean_or("normalized", false),
                      .special = node.boolean_or("special", false)});
  });
  return tokens;
}

SurroundingTokens read_post_processor(const JsonNode& root) {
  SurroundingTokens tokens;
  if (root.has("post_processor")) add_post_processors(root.child("post_processor"), tokens);
  check_parts(tokens.before.size() + tokens.after.size(), root, "post_processor");
  return tokens;
}

}  // namespace partita::internal
