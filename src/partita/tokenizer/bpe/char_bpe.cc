#include "partita/tokenizer/bpe/char_bpe.h"

#include <algorithm>
#include <unordered_set>

#include "partita/base/error.h"
#include "partita/tokenizer/bpe/char_bpe_encoder.h"
#include "partita/tokenizer/byte_tokens.h"

namespace partita::internal {
namespace {

class Encoding final : public Encoder {
 public:
  Encoding(const CharBpeTable& table, const UnknownChars& unknown, int64_t vocab_size,
           const std::unordered_map<std::string_view, TokenId>& tokens, bool whole_texts)
      : encoder_(table, unknown, vocab_size),
        tokens_(&tokens),
        whole_texts_(whole_texts),
        drops_(unknown.as == UnknownChars::As::dropped) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    if (whole_texts_) {
      if (const auto found = tokens_->find(text); found != tokens_->end()) {
        ids.push_back(found->second);
        return;
      }
    }
    if (drops_) text = keep_known(text);
    encoder_.begin_text();
    encoder_.encode_part(text, ids);
  }

 private:
  // Dropped characters leave no gap: their neighbors may merge.
  std::string_view keep_known(std::string_view text) {
    kept_.clear();
    for (size_t at = 0; at < text.size();) {
      const std::string_view character = text.substr(at, char_bytes(text, at));
      if (tokens_->contains(character)) kept_ += character;
      at += character.size();
    }
    return kept_;
  }

  CharBpeEncoder encoder_;
  const std::unordered_map<std::string_view, TokenId>* tokens_;
  bool whole_texts_;  // look up whole texts first
  bool drops_;        // drop characters without a token
  std::string kept_;
};

std::unordered_map<std::string_view, TokenId> ids_of(const BpeModel& model, std::string_view origin) {
  std::vector<bool> special(model.tokens.size(), false);
  for (const TokenId id : model.special) special[static_cast<size_t>(id)] = true;
  std::unordered_map<std::string_view, TokenId> ids;
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    if (special[id] || model.tokens[id].empty()) continue;
    const auto [at, is_new] = ids.emplace(model.tokens[id], static_cast<TokenId>(id));
    if (!is_new) fail("{}: tokens {} and {} are both \"{}\"", origin, at->second, id, model.tokens[id]);
  }
  return ids;
}

// How to encode unknown characters, with the tokens for it, which no merge may use or produce.
UnknownChars unknown_chars(const CharBpeOptions& options, const std::unordered_map<std::string_view, TokenId>& ids,
                           const std::vector<std::string>& tokens, std::string_view origin) {
  const auto vocab_size = static_cast<int64_t>(tokens.size());
  UnknownChars unknown;
  if (options.unk && (*options.unk < 0 || *options.unk >= vocab_size)) {
    fail("{}: unk is token {}, outside the vocabulary 0..{}", origin, *options.unk, vocab_size - 1);
  }
  if (options.byte_fallback) {
    int64_t found = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto token = ids.find(byte_token_name(static_cast<unsigned char>(byte)));
      if (token == ids.end()) continue;
      unknown.bytes[byte] = token->second;
      ++found;
    }
    if (found != 0 && found != 256) {
      fail("{}: byte_fallback with {} of the 256 tokens <0x00> to <0xFF>: all of them or none expected", origin, found);
    }
    if (found == 256) unknown.as = UnknownChars::As::bytes;
  }
  if (unknown.as != UnknownChars::As::bytes && options.unk) {
    unknown.as = options.fuse_unk ? UnknownChars::As::fused : UnknownChars::As::each;
    unknown.unk = *options.unk;
  }
  // Only unknown characters are fused: a token that also stands for itself could not be told apart.
  const std::string_view name = unknown.unk < 0 ? std::string_view() : tokens[static_cast<size_t>(unknown.unk)];
  if (unknown.as == UnknownChars::As::fused && !name.empty() && char_bytes(name, 0) == name.size()) {
    fail(
        "{}: fuse_unk with the unk token \"{}\", which a text may spell, is not supported: one of several characters, "
        "such as <unk>, expected",
        origin, name);
  }
  return unknown;
}

CharBpeTable make_table(const BpeModel& model, const std::unordered_map<std::string_view, TokenId>& ids,
                        const CharBpeOptions& options, std::string_view origin) {
  std::unordered_set<TokenId> stand_ins;  // tokens that stand for unknown characters
  if (options.unk) stand_ins.insert(*options.unk);
  if (options.byte_fallback) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto token = ids.find(byte_token_name(static_cast<unsigned char>(byte)));
      if (token != ids.end()) stand_ins.insert(token->second);
    }
  }
  std::vector<CharBpeTable::Char> chars;
  for (const auto& [token, id] : ids) {
    if (char_bytes(token, 0) == token.size()) chars.push_back({char_key(token, 0, token.size()), id});
  }
  std::vector<SymbolMerge> merges;
  CharJoins joins;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const BpeMerge& merge = model.merges[rank];
    for (const TokenId id : {merge.left, merge.right, merge.result}) {
      if (id < 0 || id >= model.vocab_size()) {
        fail("{}: merge {} has token {}, outside the vocabulary 0..{}", origin, rank, id, model.vocab_size() - 1);
      }
      if (stand_ins.contains(id)) {
        fail("{}: merge {} takes or makes the token \"{}\" of unknown characters, which is not supported", origin, rank,
             model.tokens[static_cast<size_t>(id)]);
      }
    }
    const std::string& left = model.tokens[static_cast<size_t>(merge.left)];
    const std::string& right = model.tokens[static_cast<size_t>(merge.right)];
    if (left.empty() || right.empty() || left + right != model.tokens[static_cast<size_t>(merge.result)]) {
      fail("{}: merge {} of \"{}\" and \"{}\" makes \"{}\"", origin, rank, left, right,
           model.tokens[static_cast<size_t>(merge.result)]);
    }
    merges.push_back({merge.left, merge.right, merge.result, static_cast<int32_t>(rank)});
    joins.add_token(left + right);
  }
  joins.finish();
  return {chars, merges, std::move(joins)};
}

}  // namespace

CharBpe::CharBpe(BpeModel model, std::string_view origin, CharBpeOptions options)
    : model_(std::move(model)),
      ignore_merges_(options.ignore_merges),
      ids_(ids_of(model_, origin)),
      unknown_(unknown_chars(options, ids_, model_.tokens, origin)),
      table_(make_table(model_, ids_, options, origin)) {}

std::unique_ptr<Encoder> CharBpe::make_encoder(const EncodeOptions& /*options*/) const {
  return std::make_unique<Encoding>(table_, unknown_, vocab_size(), ids_, ignore_merges_);
}

std::string_view CharBpe::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) fail("token {} is outside the vocabulary 0..{}", id, vocab_size() - 1);
  return model_.tokens[static_cast<size_t>(id)];
}

}  // namespace partita::internal
