#include "partita/tokenizer/sentencepiece/sentencepiece_bpe.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "partita/tokenizer/bpe/char_bpe_merger.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_normalizer.h"

namespace partita::internal {
namespace {

using PieceType = SentencePieceModel::PieceType;

// Maps scores to integers in the reference's order, which compares bits: it also orders -0 and +0, infinities and NaNs.
int32_t score_order(float score) {
  const auto bits = std::bit_cast<int32_t>(score);
  return bits < 0 ? bits ^ INT32_MAX : bits;
}

// The rank of each piece: 0 for the highest score, equal for equal scores.
std::vector<int32_t> ranks_of(const SentencePieceModel& model) {
  std::vector<int32_t> scores;
  for (const auto& piece : model.pieces) scores.push_back(score_order(piece.score));
  std::vector<int32_t> order = scores;
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (int32_t& score : scores) {
    const auto place = std::lower_bound(order.begin(), order.end(), score, std::greater<>());
    score = static_cast<int32_t>(place - order.begin());
  }
  return scores;
}

// Numbers the texts that occur in merges: piece ids, then characters that are not pieces.
class Symbols {
 public:
  Symbols(const SentencePieceModel& model, const std::vector<std::string>& pieces) {
    for (size_t id = 0; id < pieces.size(); ++id) {
      bytes.push_back(pieces[id].size());
      if (pieces[id].empty()) continue;
      const bool is_character = char_bytes(pieces[id], 0) == pieces[id].size();
      // An unused character cannot be split further: it is unknown.
      if (is_character && model.pieces[id].type == PieceType::unused) continue;
      ids_.emplace(pieces[id], static_cast<Symbol>(id));
      if (is_character) chars.push_back({char_key(pieces[id], 0, pieces[id].size()), static_cast<Symbol>(id)});
    }
  }
  // kNoSymbol: several characters that are not a piece.
  Symbol find(std::string_view text) {
    const auto found = ids_.find(text);
    if (found != ids_.end()) return found->second;
    if (char_bytes(text, 0) < text.size()) return kNoSymbol;
    const auto symbol = static_cast<Symbol>(bytes.size());
    bytes.push_back(text.size());
    chars.push_back({char_key(text, 0, text.size()), symbol});
    ids_.emplace(text, symbol);
    return symbol;
  }

  std::vector<CharBpeTable::Char> chars;
  std::vector<size_t> bytes;  // indexed by symbol

 private:
  std::unordered_map<std::string_view, Symbol> ids_;
};

}  // namespace

SentencePieceBpe::SentencePieceBpe(const SentencePieceModel& model)
    : pieces_(compact_pieces(model)), unknown_(sentencepiece_unknown(model)) {
  std::vector<ByteTrie::String> user_defined;
  Symbols symbols(model, pieces_);
  const std::vector<int32_t> ranks = ranks_of(model);
  std::vector<SymbolMerge> merges;
  CharJoins joins;
  for (size_t id = 0; id < pieces_.size(); ++id) {
    const std::string_view text = pieces_[id];
    if (text.empty()) continue;
    if (model.pieces[id].type == PieceType::user_defined) user_defined.push_back({text, static_cast<int32_t>(id)});
    bool merges_here = false;
    size_t before = 0;  // the preceding character
    for (size_t at = char_bytes(text, 0); at < text.size();) {
      const Symbol left = symbols.find(text.substr(0, at));
      const Symbol right = left == kNoSymbol ? kNoSymbol : symbols.find(text.substr(at));
      const size_t bytes = char_bytes(text, at);
      if (right != kNoSymbol) {
        merges.push_back({left, right, static_cast<Symbol>(id), ranks[id]});
        joins.add(char_key(text, before, at - before), char_key(text, at, bytes));
        merges_here = true;
      }
      before = at;
      at += bytes;
    }
    if (merges_here && model.pieces[id].type == PieceType::unused) {
      unused_.resize(pieces_.size());
      unused_[id] = true;
    }
  }
  joins.finish();
  user_defined_ = ByteTrie(std::move(user_defined));
  table_ = CharBpeTable(symbols.chars, merges, std::move(joins));
  symbol_bytes_ = std::move(symbols.bytes);
}

class SentencePieceBpeSegmenter final : public SentencePieceSegmenter {
 public:
  explicit SentencePieceBpeSegmenter(const SentencePieceBpe& bpe)
      : bpe_(&bpe), encoder_(bpe.table_, bpe.unknown_, static_cast<int64_t>(bpe.pieces_.size())) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    encoder_.begin_text();
    if (bpe_->user_defined_.empty()) return encoder_.encode_part(text, ids);
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t bytes = longest_prefix(bpe_->user_defined_, text.substr(at));
      if (bytes == 0) {
        at += char_bytes(text, at);
        continue;
      }
      encoder_.encode_part(text.substr(begin, at - begin), ids);
      encoder_.put(user_defined_id(text.substr(at, bytes)), ids);
      begin = at += bytes;
    }
    encoder_.encode_part(text.substr(begin), ids);
  }

 private:
  [[nodiscard]] TokenId user_defined_id(std::string_view text) const {
    uint32_t node = ByteTrie::kRoot;
    for (const char c : text) (void)bpe_->user_defined_.step(node, c);
    return bpe_->user_defined_.value(node);
  }

  const SentencePieceBpe* bpe_;
  CharBpeEncoder encoder_;
};

// For models with pieces of type UNUSED.
class SentencePieceUnusedSegmenter final : public SentencePieceSegmenter {
 public:
  explicit SentencePieceUnusedSegmenter(const SentencePieceBpe& bpe) : bpe_(&bpe) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    symbols_.clear();
    made_of_.clear();
    for (size_t at = 0; at < text.size();) {
      const size_t user_defined = longest_prefix(bpe_->user_defined_, text.substr(at));
      if (user_defined > 0) {
        uint32_t node = ByteTrie::kRoot;
        for (const char c : text.substr(at, user_defined)) (void)bpe_->user_defined_.step(node, c);
        symbols_.push_back({kNoSymbol - 1 - bpe_->user_defined_.value(node), static_cast<uint32_t>(at)});
        at += user_defined;
      } else {
        const size_t bytes = char_bytes(text, at);
        append_symbols(bpe_->table_, text, at, at + bytes, symbols_);
        at += bytes;
      }
    }
    merger_.merge(bpe_->table_, symbols_, [&](Symbol left, Symbol right, Symbol result) {
      if (is_unused(result)) made_of_[result] = {left, right};
    });
    after_unknown_ = false;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      const size_t begin = symbols_[i].begin, end = i + 1 < symbols_.size() ? symbols_[i + 1].begin : text.size();
      const Symbol symbol = symbols_[i].symbol;
      if (symbol < kNoSymbol) {
        put(kNoSymbol - 1 - symbol, ids);
      } else {
        fall_apart(symbol, text.substr(begin, end - begin), 0, ids);
      }
    }
  }

 private:
  static constexpr int kDeepest = 100;  // same limit as the reference

  [[nodiscard]] bool is_unused(Symbol symbol) const {
    return symbol >= 0 && static_cast<size_t>(symbol) < bpe_->unused_.size() &&
           bpe_->unused_[static_cast<size_t>(symbol)];
  }
  void put(TokenId id, std::vector<TokenId>& ids) {
    ids.push_back(id);
    after_unknown_ = false;
  }
  void fall_apart(Symbol symbol, std::string_view text, int depth, std::vector<TokenId>& ids) {
    const bool is_piece = symbol >= 0 && static_cast<size_t>(symbol) < bpe_->pieces_.size();
    const auto parts = made_of_.find(symbol);
    if (is_piece && (!is_unused(symbol) || depth > kDeepest)) {
      put(symbol, ids);
    } else if (!is_piece || parts == made_of_.end()) {
      bpe_->unknown_.append(text, after_unknown_, ids);
      after_unknown_ = true;
    } else {
      const auto [left, right] = parts->second;
      const size_t bytes = bpe_->symbol_bytes_[static_cast<size_t>(left)];
      fall_apart(left, text.substr(0, bytes), depth + 1, ids);
      fall_apart(right, text.substr(bytes), depth + 1, ids);
    }
  }

  const SentencePieceBpe* bpe_;
  CharBpeMerger merger_;
  std::vector<SymbolAt> symbols_;
  std::unordered_map<Symbol, std::pair<Symbol, Symbol>> made_of_;  // unused piece -> the pair that last produced it
  bool after_unknown_ = false;
};

std::unique_ptr<SentencePieceSegmenter> SentencePieceBpe::make_segmenter() const {
  if (!unused_.empty()) return std::make_unique<SentencePieceUnusedSegmenter>(*this);
  return std::make_unique<SentencePieceBpeSegmenter>(*this);
}

}  // namespace partita::internal
