#include "partita/tokenizer/formats/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/base/log.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "partita/tokenizer/bpe/bpe_model_builder.h"
#include "partita/tokenizer/bpe/char_bpe.h"
#include "partita/tokenizer/formats/json_node.h"
#include "partita/tokenizer/formats/tokenizer_files.h"
#include "partita/tokenizer/formats/tokenizer_json_parts.h"
#include "partita/tokenizer/pipeline.h"
#include "partita/tokenizer/unigram/unigram.h"

namespace partita::internal {
namespace {

using nlohmann::json;

void check_root(const JsonNode& root) {
  root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  root.expect("version", {"1.0"});
  // These concern batches of texts; transformers leaves them off unless requested, and ignores them in files.
  for (const char* name : {"truncation", "padding"})
    if (root.has(name)) log::info("{}: {} is not applied, as in transformers", root.origin(), name);
}

// "BPE" or "Unigram"; files older than 2020 have no type.
std::string model_type(const JsonNode& model) {
  const std::string type = model.has("type") || !model.has("merges") ? model.string("type") : "BPE";
  if (type != "BPE" && type != "Unigram") {
    fail("{}: model.type = \"{}\" is not supported: BPE or Unigram expected", model.origin(), type);
  }
  return type;
}

// "a b", or ["a", "b"] in newer files.
void add_merge(BpeModelBuilder& builder, const json& merge, const JsonNode& model, size_t index) {
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
       JsonNode::shown(merge));
}

struct Bpe {
  BpeModel model;
  CharBpeOptions options;  // for character BPE
};

Bpe read_bpe(const JsonNode& model, TokenNames names, const std::vector<AddedToken>& added) {
  model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                    "byte_fallback", "ignore_merges", "vocab", "merges"});
  model.expect("dropout", {nullptr, 0.0});
  model.expect("continuing_subword_prefix", {nullptr, ""});
  model.expect("end_of_word_suffix", {nullptr, ""});
  BpeModelBuilder builder(model.origin(), names);
  for (const auto& [name, id] : model.child("vocab").value().items()) {
    if (!id.is_number_integer()) {
      fail("{}: model.vocab[{}]: an integer expected, found {}", model.origin(), json(name).dump(),
           JsonNode::shown(id));
    }
    builder.add_token(name, id.get<int64_t>());
  }
  Bpe bpe;
  bpe.options = {.byte_fallback = model.boolean_or("byte_fallback", false),
                 .fuse_unk = model.boolean_or("fuse_unk", false),
                 .ignore_merges = model.boolean_or("ignore_merges", false)};
  if (model.has("unk_token")) {
    const std::string unk = model.string("unk_token");
    bpe.options.unk = builder.find(unk);
    // unk concerns bytes without a token, which a byte-level vocabulary does not have.
    if (!bpe.options.unk && names == TokenNames::text) {
      fail("{}: model.unk_token \"{}\" is not in the vocabulary", model.origin(), unk);
    }
  }
  for (const AddedToken& token : added) builder.add_added(token.content, token.id, bpe.options.ignore_merges);
  size_t index = 0;
  for (const json& merge : model.array("merges")) add_merge(builder, merge, model, index++);
  bpe.model = builder.build();
  return bpe;
}

std::unique_ptr<Tokenizer> read_unigram(const JsonNode& model) {
  model.allow_only({"type", "unk_id", "vocab", "byte_fallback"});
  UnigramModel unigram;
  unigram.byte_fallback = model.boolean_or("byte_fallback", false);
  if (model.has("unk_id"))
    unigram.unk = static_cast<TokenId>(std::clamp<int64_t>(model.integer("unk_id"), -1, 1 << 30));
  for (const json& item : model.array("vocab")) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number()) {
      fail("{}: model.vocab[{}]: [token, score] expected, found {}", model.origin(), unigram.tokens.size(),
           JsonNode::shown(item));
    }
    unigram.tokens.push_back(item[0].get<std::string>());
    unigram.scores.push_back(item[1].get<double>());
  }
  return std::make_unique<Unigram>(std::move(unigram), model.origin());
}

// The reference ignores the ids that a file gives for added tokens: tokens in the vocabulary have their id there,
// others get consecutive ids after the vocabulary size. A file with other ids was not written by the reference, and its
// ids are ambiguous.
void check_added_ids(const JsonNode& model, const std::string& type, const std::vector<AddedToken>& added) {
  std::unordered_map<std::string, int64_t> ids;
  int64_t next = 0;
  if (type == "Unigram") {
    for (const json& item : model.array("vocab")) {
      if (item.is_array() && !item.empty() && item[0].is_string()) ids[item[0].get<std::string>()] = next;
      ++next;
    }
  } else {
    const json& vocab = model.child("vocab").value();
    next = static_cast<int64_t>(vocab.size());
    for (const AddedToken& token : added) {
      const auto found = vocab.find(token.content);
      if (found != vocab.end() && found->is_number_integer()) ids[token.content] = found->get<int64_t>();
    }
  }
  for (size_t i = 0; i < added.size(); ++i) {
    const auto [known, is_new] = ids.emplace(added[i].content, next);
    next += is_new ? 1 : 0;
    if (added[i].id == known->second) continue;
    fail("{}: added_tokens[{}].id = {} of {} is not supported: {} expected, {}", model.origin(), i, added[i].id,
         json(added[i].content).dump(), known->second,
         is_new ? "the next one after the vocabulary" : "which the token has already");
  }
}

// With "first", the reference's Metaspace checks whether a piece starts at the beginning of the original text. Here it
// applies to the first piece, which is equivalent if nothing before it adds or removes characters, and if no character
// that a normal form decomposes is split afterwards (both parts would start at the same position).
void check_metaspace_first(const JsonNode& root, const PipelineParts& parts, const PreTokenizer& pre_tokenizer) {
  bool same_begin = true, cut = false;
  for (const NormalizerStep& step : parts.normalizer.steps) same_begin &= std::holds_alternative<NormalForm>(step);
  for (const AddedToken& token : parts.added) cut |= token.normalized;
  for (const PreTokenizerStep& step : pre_tokenizer.steps) {
    const auto* metaspace = std::get_if<MetaspaceStep>(&step);
    if (metaspace != nullptr && metaspace->prepend == MetaspaceStep::Prepend::first &&
        (!same_begin || (cut && !parts.normalizer.steps.empty()))) {
      fail(
          "{}: pre_tokenizer: Metaspace with prepend_scheme = \"first\" is not supported after steps that may change "
          "where a text begins: in front of it expected either normalizers of a normal form alone, or Split, Digits, "
          "Punctuation that remove nothing and added tokens that are normalized",
          root.origin());
    }
    const auto* split = std::get_if<SplitStep>(&step);
    same_begin &= split != nullptr && split->behavior != SplitBehavior::removed;
    cut = true;
  }
}

// Reads the model and how text is split for it.
void add_model(const JsonNode& root, PipelineParts& parts) {
  const JsonNode model = root.child("model");
  PreTokenizer pre_tokenizer = read_pre_tokenizer(root);
  const std::string type = model_type(model);
  check_metaspace_first(root, parts, pre_tokenizer);
  if (pre_tokenizer.byte_level()) {
    if (type != "BPE") {
      fail("{}: model.type = \"{}\" with a ByteLevel pre_tokenizer is not supported: BPE expected", root.origin(),
           type);
    }
    check_added_ids(model, type, parts.added);
    const auto simple = pre_tokenizer.simplified();
    Bpe bpe = read_bpe(model, TokenNames::printable_bytes, parts.added);
    parts.needs_valid_utf8 = !has_all_bytes(bpe.model);
    parts.model = std::make_unique<ByteLevelBpe>(
        std::move(bpe.model), root.origin(),
        ByteLevelBpeOptions{simple ? simple->pattern : SplitPattern::whole, bpe.options.ignore_merges});
    parts.add_prefix_space = simple && simple->add_prefix_space;
    if (simple) return;
  } else {
    check_added_ids(model, type, parts.added);
    parts.needs_valid_utf8 = true;
    if (type == "Unigram") {
      parts.model = read_unigram(model);
    } else {
      Bpe bpe = read_bpe(model, TokenNames::text, parts.added);
      parts.model = std::make_unique<CharBpe>(std::move(bpe.model), root.origin(), bpe.options);
    }
    if (pre_tokenizer.steps.empty()) return;
  }
  parts.pre_tokenizer = std::move(pre_tokenizer);
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, std::string_view origin) {
  const json document = parse_json(text, origin);
  const JsonNode root(document, std::string(origin), "");
  check_root(root);
  PipelineParts parts;
  parts.added = read_added_tokens(root);
  parts.normalizer = read_normalizer(root);
  SurroundingTokens around = read_post_processor(root);
  parts.before = std::move(around.before);
  parts.after = std::move(around.after);
  parts.decoder = read_decoder(root);
  add_model(root, parts);
  auto tokenizer = std::make_unique<Pipeline>(std::move(parts));
  for (const auto* ids : {&tokenizer->parts().before, &tokenizer->parts().after}) {
    for (const TokenId id : *ids) {
      if (id >= tokenizer->vocab_size()) {
        fail("{}: post_processor: token {} is outside the vocabulary of {}", origin, id, tokenizer->vocab_size());
      }
    }
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& path) {
  return parse_tokenizer_json(read_tokenizer_file(path), path.string());
}

BpeModel parse_tokenizer_json_model(std::string_view text, std::string_view origin) {
  const json document = parse_json(text, origin);
  const JsonNode root(document, std::string(origin), "");
  check_root(root);
  if (model_type(root.child("model")) != "BPE" || !read_pre_tokenizer(root).byte_level()) {
    fail("{}: a model of type BPE with a ByteLevel pre_tokenizer expected", origin);
  }
  return read_bpe(root.child("model"), TokenNames::printable_bytes, read_added_tokens(root)).model;
}

BpeModel load_tokenizer_json(const std::filesystem::path& path) {
  return parse_tokenizer_json_model(read_tokenizer_file(path), path.string());
}

}  // namespace partita::internal
