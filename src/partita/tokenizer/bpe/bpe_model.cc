#include "partita/tokenizer/bpe/bpe_model.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/tokenizer/byte_level.h"

namespace partita::internal {

std::unordered_map<std::string_view, TokenId> token_ids(const BpeModel& model) {
  std::vector<bool> special(model.tokens.size());
  for (TokenId id : model.special) special[static_cast<size_t>(id)] = true;
  std::unordered_map<std::string_view, TokenId> ids;
  ids.reserve(model.tokens.size());
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    if (!special[id] && !model.tokens[id].empty()) ids.emplace(model.tokens[id], static_cast<TokenId>(id));
  }
  return ids;
}

namespace {

bool is_in_utf8(int byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

bool has_byte(const std::unordered_map<std::string_view, TokenId>& ids, int byte) {
  return ids.contains(std::string(1, static_cast<char>(byte)));
}

}  // namespace

bool has_all_bytes(const BpeModel& model) {
  const auto ids = token_ids(model);
  for (int byte = 0; byte < 256; ++byte) {
    if (!has_byte(ids, byte)) return false;
  }
  return true;
}

void validate(const BpeModel& model, std::string_view origin) {
  const auto in_vocabulary = [&model](TokenId id) { return id >= 0 && id < model.vocab_size(); };
  for (TokenId id : model.special) {
    if (!in_vocabulary(id)) fail("{}: special token {} is outside 0..{}", origin, id, model.vocab_size() - 1);
  }
  if (!std::is_sorted(model.special.begin(), model.special.end())) fail("{}: special tokens are not ascending", origin);
  const auto ids = token_ids(model);
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    if (std::binary_search(model.special.begin(), model.special.end(), static_cast<TokenId>(id))) continue;
    const auto found = ids.find(model.tokens[id]);
    if (found != ids.end() && found->second != static_cast<TokenId>(id)) {
      fail("{}: tokens {} and {} are both \"{}\"", origin, found->second, id, to_printable(model.tokens[id]));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (is_in_utf8(byte) && !has_byte(ids, byte)) {
      fail(
          "{}: no token for byte 0x{:02X} (\"{}\"): a byte-level vocabulary has all 256, so that every text can be "
          "encoded",
          origin, byte, to_printable(std::string(1, static_cast<char>(byte))));
    }
  }
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const BpeMerge& merge = model.merges[rank];
    if (!in_vocabulary(merge.left) || !in_vocabulary(merge.right) || !in_vocabulary(merge.result)) {
      fail("{}: merge {} ({}, {}) -> {} is outside the vocabulary of {}", origin, rank, merge.left, merge.right,
           merge.result, model.vocab_size());
    }
    const auto bytes_of = [&model](TokenId id) -> const std::string& { return model.tokens[static_cast<size_t>(id)]; };
    if (bytes_of(merge.left) + bytes_of(merge.right) != bytes_of(merge.result)) {
      fail("{}: merge {} makes \"{}\" of \"{}\" and \"{}\"", origin, rank, to_printable(bytes_of(merge.result)),
           to_printable(bytes_of(merge.left)), to_printable(bytes_of(merge.right)));
    }
  }
}

}  // namespace partita::internal
