#include "partita/tokenizer/unigram/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/tokenizer/byte_tokens.h"

namespace partita::internal {
namespace {

constexpr double kUnknownPenalty = 10;

UnigramModel validated(UnigramModel model, std::string_view origin) {
  if (model.tokens.empty()) fail("{}: model.vocab is empty", origin);
  if (model.scores.size() != model.tokens.size()) {
    fail("{}: {} scores for {} tokens", origin, model.scores.size(), model.tokens.size());
  }
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    if (std::isfinite(model.scores[id])) continue;
    fail("{}: the score of token {} (\"{}\") is {}: a finite number expected", origin, id, model.tokens[id],
         model.scores[id]);
  }
  const auto size = static_cast<int64_t>(model.tokens.size());
  if (model.unk && (*model.unk < 0 || *model.unk >= size)) {
    fail("{}: unk_id is {}, outside the vocabulary 0..{}", origin, *model.unk, size - 1);
  }
  return model;
}

// Among tokens with the same text the last counts, as in the reference.
std::unordered_map<std::string_view, TokenId> ids_of(const UnigramModel& model) {
  std::unordered_map<std::string_view, TokenId> ids;
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    if (!model.tokens[id].empty()) ids[model.tokens[id]] = static_cast<TokenId>(id);
  }
  return ids;
}

UnigramLattice<double> make_lattice(const UnigramModel& model,
                                    const std::unordered_map<std::string_view, TokenId>& ids) {
  std::vector<UnigramLattice<double>::ScoredPiece> pieces;
  for (const auto& [text, id] : ids) pieces.push_back({text, id, model.scores[static_cast<size_t>(id)]});
  const double lowest = *std::min_element(model.scores.begin(), model.scores.end());
  return {pieces, lowest - kUnknownPenalty, std::numeric_limits<double>::infinity()};
}

std::optional<std::array<TokenId, 256>> byte_tokens(const UnigramModel& model,
                                                    const std::unordered_map<std::string_view, TokenId>& ids,
                                                    std::string_view origin) {
  std::array<TokenId, 256> tokens{};
  int64_t found = 0;
  for (size_t byte = 0; byte < 256 && model.byte_fallback; ++byte) {
    const auto token = ids.find(byte_token_name(static_cast<unsigned char>(byte)));
    if (token == ids.end()) continue;
    tokens[byte] = token->second;
    ++found;
  }
  if (found == 0) return std::nullopt;
  if (found == 256) return tokens;
  fail("{}: byte_fallback with {} of the 256 tokens <0x00> to <0xFF>: all of them or none expected", origin, found);
}

class Encoding final : public Encoder {
 public:
  Encoding(const UnigramLattice<double>& lattice, const std::unordered_map<std::string_view, TokenId>& ids,
           const std::optional<std::array<TokenId, 256>>& bytes, std::optional<TokenId> unk)
      : lattice_(&lattice), ids_(&ids), bytes_(&bytes), unk_(unk) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    walk_.begin_text();
    size_t unknown_begin = 0, unknown_end = 0;  // run of adjacent unknown characters
    lattice_->joins().for_each_unit(text, [&](size_t begin, size_t end) {
      for (const UnigramPiece& piece : lattice_->segment(text.substr(begin, end - begin), walk_)) {
        if (piece.id == UnigramPiece::kUnknown || piece.id == unk_) {
          if (unknown_begin == unknown_end) unknown_begin = begin + piece.begin;
          unknown_end = begin + piece.end;
          continue;
        }
        put_unknown(text.substr(unknown_begin, unknown_end - unknown_begin), ids);
        unknown_begin = unknown_end = 0;
        ids.push_back(piece.id);
      }
    });
    put_unknown(text.substr(unknown_begin, unknown_end - unknown_begin), ids);
  }

 private:
  // Characters that are not tokens, or the text of the unknown token itself.
  void put_unknown(std::string_view text, std::vector<TokenId>& ids) const {
    if (text.empty()) return;
    if (!unk_) fail("the text has characters that are not tokens, and the vocabulary has no unk_id for them");
    if (const auto found = ids_->find(text); found != ids_->end()) {
      ids.push_back(found->second);
    } else if (*bytes_) {
      for (const char c : text) ids.push_back((**bytes_)[static_cast<unsigned char>(c)]);
    } else {
      ids.push_back(*unk_);
    }
  }

  const UnigramLattice<double>* lattice_;
  const std::unordered_map<std::string_view, TokenId>* ids_;
  const std::optional<std::array<TokenId, 256>>* bytes_;
  std::optional<TokenId> unk_;
  UnigramLattice<double>::Walk walk_;
};

}  // namespace

Unigram::Unigram(UnigramModel model, std::string_view origin)
    : model_(validated(std::move(model), origin)),
      ids_(ids_of(model_)),
      lattice_(make_lattice(model_, ids_)),
      bytes_(byte_tokens(model_, ids_, origin)) {}

std::unique_ptr<Encoder> Unigram::make_encoder(const EncodeOptions& /*options*/) const {
  return std::make_unique<Encoding>(lattice_, ids_, bytes_, model_.unk);
}

std::string_view Unigram::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) fail("token {} is outside the vocabulary 0..{}", id, vocab_size() - 1);
  return model_.tokens[static_cast<size_t>(id)];
}

}  // namespace partita::internal
