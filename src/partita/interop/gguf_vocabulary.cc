#include "partita/interop/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/printable.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "partita/tokenizer/bpe/char_bpe.h"
#include "partita/tokenizer/byte_level.h"
#include "partita/tokenizer/byte_tokens.h"
#include "partita/tokenizer/pipeline.h"
#include "partita/tokenizer/sentencepiece/sentencepiece.h"

namespace partita::internal {
namespace {

constexpr std::string_view kSpaceBlock = "\u2581";
constexpr float kMergedLast = -1e9F;  // score of tokens that no merge makes: llama.cpp merges to them, too

constexpr const char* kOtherSplitting =
    "llama.cpp does not prepare and split texts as this tokenizer does and may tokenize text differently: pass ids to "
    "it where that matters";
constexpr const char* kOtherMerging =
    "llama.cpp merges all characters and tokens that together are a token, this tokenizer only those of its list, so "
    "llama.cpp may tokenize text differently: pass ids to it where that matters";
constexpr const char* kOtherAdded =
    "llama.cpp finds added tokens exactly as they are written, so it may tokenize text differently around '{}' "
    "(lstrip, "
    "rstrip, single_word or normalized): pass ids to it where that matters";
constexpr const char* kOtherSurroundings =
    "llama.cpp puts at most a BOS token in front of a text and an EOS token after it, and this tokenizer other ones "
    "({} before, {} after): pass ids to it where that matters";

// llama.cpp matches user-defined tokens in texts as they are, with spaces.
std::string with_spaces(std::string text) {
  for (size_t at = text.find(kSpaceBlock); at != std::string::npos; at = text.find(kSpaceBlock, at + 1))
    text.replace(at, kSpaceBlock.size(), " ");
  return text;
}

class Builder {
 public:
  // Ids that the model does not know are dropped.
  Builder(GgufSpecialIds ids, int64_t vocab_size) : ids_(std::move(ids)), tokens_(static_cast<size_t>(vocab_size)) {
    const auto is_unknown = [&](int64_t id) { return id < 0 || id >= vocab_size; };
    std::erase_if(ids_.eos, is_unknown);
    for (std::optional<int64_t>* id : {&ids_.bos, &ids_.pad})
      if (*id && is_unknown(**id)) id->reset();
    types_.assign(tokens_.size(), GgufTokenType::unused);
    for (size_t id = 0; id < tokens_.size(); ++id) tokens_[id] = fmt::format("[PAD{}]", id);
  }

  void set(size_t id, std::string text, GgufTokenType type) {
    if (id >= tokens_.size())
      fail("the tokenizer has a token {}, the model knows {} tokens: export with the tokenizer it was trained with", id,
           tokens_.size());
    if (text.empty()) return;  // an id without a token
    tokens_[id] = std::move(text);
    types_[id] = type;
  }
  // `texts_have_spaces`: false if the tokens of the model have kSpaceBlock in their place.
  void set_added(const PipelineParts& parts, bool texts_have_spaces) {
    for (const AddedToken& token : parts.added)
      set(static_cast<size_t>(token.id),
          token.special || texts_have_spaces ? token.content : with_spaces(token.content),
          token.special ? GgufTokenType::control : GgufTokenType::user_defined);
    const bool normalizes = !parts.normalizer.steps.empty();
    const auto found = std::ranges::find_if(parts.added, [&](const AddedToken& token) {
      return token.lstrip || token.rstrip || token.single_word || (token.normalized && normalizes);
    });
    if (found != parts.added.end()) warn(fmt::format(kOtherAdded, printable_line(found->content)));
  }
  void add(std::string key, GgufValue value) {
    out_.metadata.emplace_back("tokenizer.ggml." + std::move(key), std::move(value));
  }
  void warn(std::string line) { out_.warnings.push_back(std::move(line)); }
  [[nodiscard]] size_t size() const { return tokens_.size(); }

  // Adds the list and the special tokens. `before`, `after`: the tokens that the tokenizer puts around a text, of which
  // llama.cpp has one each.
  GgufVocabulary finish(std::span<const TokenId> before, std::span<const TokenId> after) {
    check_unique();
    add("tokens", std::move(tokens_));
    std::vector<int32_t> types;
    for (const GgufTokenType type : types_) types.push_back(static_cast<int32_t>(type));
    add("token_type", std::move(types));
    const auto eos = ids_.eos.empty() ? std::nullopt : std::optional(ids_.eos[0]);
    // Without a BOS token of its own, a text begins after the EOS token of the one before.
    add_id("bos_token_id", before.size() == 1 ? std::optional<int64_t>(before[0]) : ids_.bos ? ids_.bos : eos);
    add_id("eos_token_id", eos);
    if (ids_.eos.size() > 1) add_id("eot_token_id", ids_.eos.back());
    add_id("padding_token_id", ids_.pad);
    add("add_bos_token", before.size() == 1);
    const bool adds_eos = after.size() == 1 && eos == after[0];
    add("add_eos_token", adds_eos);
    if (before.size() > 1 || (!after.empty() && !adds_eos))
      warn(fmt::format(kOtherSurroundings, before.size(), after.size()));
    if (!eos)
      warn(
          "no token ends a text of this model (generation_config.json: eos_token_id): llama.cpp takes one of its own "
          "choice, so tell it not to stop there (--ignore-eos)");
    return std::move(out_);
  }

 private:
  void add_id(const char* key, std::optional<int64_t> id) {
    if (id) add(key, static_cast<uint32_t>(*id));
  }
  void check_unique() const {
    std::unordered_map<std::string_view, size_t> ids;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const auto [at, is_new] = ids.emplace(tokens_[id], id);
      if (!is_new)
        fail("tokens {} and {} of the tokenizer are both '{}', which llama.cpp does not load", at->second, id,
             tokens_[id]);
    }
  }

  GgufSpecialIds ids_;
  std::vector<std::string> tokens_;
  std::vector<GgufTokenType> types_;
  GgufVocabulary out_;
};

// Tokens and merges of GPT-2's kind, in the printable form of their bytes.
GgufVocabulary byte_level(const Pipeline& pipeline, const ByteLevelBpe& bpe, Builder& out) {
  const PipelineParts& parts = pipeline.parts();
  const BpeModel& model = bpe.model();
  out.add("model", std::string("gpt2"));
  const bool ignores = bpe.options().ignore_merges;
  std::string_view pre = gguf_pre_tokenizer(bpe.options().pattern, ignores);
  // With tiktoken's ranks the merges of a token's bytes lead to the token as well.
  if (pre.empty() && model.rank == MergeRank::result) pre = gguf_pre_tokenizer(bpe.options().pattern, !ignores);
  if (parts.pre_tokenizer) pre = "";  // a list of steps that is none of the known patterns
  // Without this key llama.cpp says itself that it does not know how texts are split.
  if (!pre.empty()) out.add("pre", std::string(pre));
  if (pre.empty() || parts.add_prefix_space || !parts.normalizer.steps.empty()) out.warn(kOtherSplitting);
  std::vector<std::string> names;
  for (const std::string& bytes : model.tokens) names.push_back(to_printable(bytes));
  std::vector<std::string> merges;
  for (const BpeMerge& merge : model.merges)
    merges.push_back(names[static_cast<size_t>(merge.left)] + " " + names[static_cast<size_t>(merge.right)]);
  for (size_t id = 0; id < names.size(); ++id) out.set(id, std::move(names[id]), GgufTokenType::normal);
  out.set_added(parts, true);
  out.add("merges", std::move(merges));
  return out.finish(parts.before, parts.after);
}

GgufTokenType type_of(SentencePieceModel::PieceType type) {
  return static_cast<GgufTokenType>(static_cast<int32_t>(type));  // llama.cpp's numbers are SentencePiece's
}

GgufVocabulary sentencepiece(const SentencePieceTokenizer& tokenizer, Builder& out) {
  using Type = SentencePieceModel::PieceType;
  const SentencePieceModel& model = tokenizer.model();
  out.add("model", std::string("llama"));
  out.add("pre", std::string("default"));
  out.add("add_space_prefix", model.normalizer.add_dummy_prefix);
  if (const auto unknown = model.unknown()) out.add("unknown_token_id", static_cast<uint32_t>(*unknown));
  bool has_unused = false;
  std::vector<float> scores(out.size(), kMergedLast);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    out.set(id, piece.type == Type::user_defined ? with_spaces(piece.text) : piece.text, type_of(piece.type));
    scores[id] = piece.score;
    has_unused |= piece.type == Type::unused;
  }
  out.add("scores", std::move(scores));
  if (has_unused || !model.normalizer.precompiled_charsmap.empty() || model.normalizer.remove_extra_whitespaces ||
      model.treat_whitespace_as_suffix || !model.normalizer.escape_whitespaces)
    out.warn(kOtherSplitting);
  return out.finish(tokenizer.tokens_in_front(), {});
}

// Steps in front of character BPE. llama.cpp replaces spaces by kSpaceBlock, and may put one in front of the text.
struct SpaceSteps {
  bool blocks = false, prefix = false, others = false;
};

SpaceSteps space_steps(const PipelineParts& parts) {
  SpaceSteps found;
  for (const NormalizerStep& step : parts.normalizer.steps) {
    const auto* replace = std::get_if<ReplaceStep>(&step);
    const auto* text = replace == nullptr ? nullptr : std::get_if<std::string>(&replace->matcher.what);
    const auto* prepend = std::get_if<PrependStep>(&step);
    const bool prefixes = prepend != nullptr && prepend->text == kSpaceBlock;
    const bool replaces = text != nullptr && *text == " " && replace->content == kSpaceBlock;
    found.prefix |= prefixes;
    found.blocks |= replaces;
    found.others |= !prefixes && !replaces;
  }
  if (!parts.pre_tokenizer) return found;
  for (const PreTokenizerStep& step : parts.pre_tokenizer->steps) {
    const auto* spaces = std::get_if<MetaspaceStep>(&step);
    found.blocks |= spaces != nullptr;
    found.prefix |= spaces != nullptr && spaces->prepend != MetaspaceStep::Prepend::never;
    found.others |= spaces == nullptr || spaces->split || spaces->replacement != kSpaceBlock;
  }
  return found;
}

// Whether merges by rank are merges by score of the token that they make: every pair of tokens or characters that
// together are a token is a merge, and the merges that make one token follow each other. Added tokens are found first.
bool merges_as_scores(const BpeModel& model, const std::vector<AddedToken>& added) {
  const std::unordered_map<std::string_view, TokenId> ids = token_ids(model);
  std::unordered_set<TokenId> found_first;
  for (const AddedToken& token : added) found_first.insert(token.id);
  std::unordered_map<TokenId, size_t> made;  // how many merges make the token
  for (size_t rank = 0; rank < model.merges.size(); ++rank)
    if (made[model.merges[rank].result]++ > 0 && model.merges[rank - 1].result != model.merges[rank].result)
      return false;
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };  // a character
  const auto is_part = [&](std::string_view text) {
    return ids.contains(text) || std::ranges::none_of(text.substr(1), begins);
  };
  for (const auto& [text, id] : ids) {
    if (byte_of_token_name(text) || found_first.contains(id)) continue;
    size_t pairs = 0;
    for (size_t at = 1; at < text.size(); ++at) {
      pairs += begins(text[at]) && is_part(text.substr(0, at)) && is_part(text.substr(at)) ? 1 : 0;
    }
    const auto found = made.find(id);
    if (pairs != (found == made.end() ? 0 : found->second)) return false;
  }
  return true;
}

// Llama 2's tokenizer.json: SentencePiece's BPE, with ranks of merges in place of scores. llama.cpp merges the adjacent
// pair whose token has the highest score.
GgufVocabulary char_bpe(const Pipeline& pipeline, const CharBpe& bpe, Builder& out) {
  const PipelineParts& parts = pipeline.parts();
  const BpeModel& model = bpe.model();
  const SpaceSteps steps = space_steps(parts);
  out.add("model", std::string("llama"));
  out.add("pre", std::string("default"));
  out.add("add_space_prefix", steps.prefix);
  if (steps.others || !steps.blocks) out.warn(kOtherSplitting);
  if (bpe.ignores_merges() || !merges_as_scores(model, parts.added)) out.warn(kOtherMerging);
  std::vector<float> scores(out.size(), kMergedLast);
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    const std::string& text = model.tokens[id];
    out.set(id, text, byte_of_token_name(text) ? GgufTokenType::byte : GgufTokenType::normal);
  }
  for (size_t rank = model.merges.size(); rank-- > 0;)  // of several pairs that give a token the first counts
    scores[static_cast<size_t>(model.merges[rank].result)] = -static_cast<float>(rank + 1);
  out.set_added(parts, false);
  out.add("scores", std::move(scores));
  return out.finish(parts.before, parts.after);
}

// Ids alone, of a vocabulary of dummy tokens.
GgufVocabulary no_tokenizer(std::string warning) {
  return {.metadata = {{"tokenizer.ggml.model", std::string("none")}}, .warnings = {std::move(warning)}};
}

}  // namespace

std::string_view gguf_pre_tokenizer(SplitPattern pattern, bool ignore_merges) {
  switch (pattern) {
    case SplitPattern::gpt2:
      return ignore_merges ? "" : "gpt-2";
    case SplitPattern::llama3:
      return ignore_merges ? "llama-bpe" : "dbrx";
    case SplitPattern::qwen2:
      return ignore_merges ? "" : "qwen2";
    case SplitPattern::o200k:
      return ignore_merges ? "" : "gpt-4o";
    case SplitPattern::tekken:
      return ignore_merges ? "tekken" : "";
    case SplitPattern::cl100k:
    case SplitPattern::whole:
      break;
  }
  return "";
}

GgufVocabulary gguf_vocabulary(const Tokenizer* tokenizer, const GgufSpecialIds& ids, int64_t vocab_size) {
  if (tokenizer == nullptr) return no_tokenizer("the model has no tokenizer: llama.cpp takes and gives its ids alone");
  Builder out(ids, vocab_size);
  if (const auto* pipeline = dynamic_cast<const Pipeline*>(tokenizer)) {
    const Tokenizer* model = pipeline->parts().model.get();
    if (const auto* bpe = dynamic_cast<const ByteLevelBpe*>(model)) return byte_level(*pipeline, *bpe, out);
    if (const auto* bpe = dynamic_cast<const CharBpe*>(model); bpe != nullptr && bpe->falls_back_to_bytes())
      return char_bpe(*pipeline, *bpe, out);
  }
  if (const auto* pieces = dynamic_cast<const SentencePieceTokenizer*>(tokenizer);
      pieces != nullptr && pieces->model().type == SentencePieceModel::Type::bpe && pieces->model().byte_fallback)
    return sentencepiece(*pieces, out);
  return no_tokenizer(
      "llama.cpp's Llama and GPT-2 have BPE over bytes, and over characters with byte tokens for all others; this "
      "tokenizer is neither and is left out: llama.cpp takes and gives the model's ids alone");
}

}  // namespace partita::internal
