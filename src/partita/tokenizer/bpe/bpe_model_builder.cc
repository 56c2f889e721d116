#include "partita/tokenizer/bpe/bpe_model_builder.h"

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/tokenizer/byte_level.h"

namespace partita::internal {

void BpeModelBuilder::add_token(std::string name, int64_t id) {
  if (id < 0 || id > std::numeric_limits<TokenId>::max()) {
    fail("{}: token \"{}\" has the id {}, 0 to {} expected", origin_, name, id, std::numeric_limits<TokenId>::max());
  }
  const auto token = static_cast<TokenId>(id);
  if (const auto [place, added] = names_.emplace(token, name); !added) {
    fail("{}: tokens \"{}\" and \"{}\" both have the id {}", origin_, place->second, name, id);
  }
  if (const auto [place, added] = ids_.emplace(std::move(name), token); !added) {
    fail("{}: token \"{}\" has two ids, {} and {}", origin_, place->first, place->second, id);
  }
}

void BpeModelBuilder::add_special(const std::string& name, int64_t id) {
  const auto known = ids_.find(name);
  if (known == ids_.end() || known->second != id) add_token(name, id);
  special_.push_back(static_cast<TokenId>(id));
}

void BpeModelBuilder::add_added(const std::string& name, int64_t id, bool whole_words) {
  const auto known = ids_.find(name);
  if (known == ids_.end() || known->second != id) return add_special(name, id);
  if (kind_ == TokenNames::text) return;
  const auto bytes = from_printable(name);
  if (!bytes) return special_.push_back(known->second);
  if (bytes->size() > 1 && !whole_words) special_unless_merged_.push_back(known->second);
}

void BpeModelBuilder::add_merge(std::string_view left, std::string_view right) { add_merge(left, right, origin_); }

void BpeModelBuilder::add_merge(std::string_view left, std::string_view right, std::string_view origin) {
  std::string joined(left);
  joined += right;
  merges_.push_back({id_of(std::string(left), left, right, origin), id_of(std::string(right), left, right, origin),
                     id_of(joined, left, right, origin)});
}

TokenId BpeModelBuilder::id_of(const std::string& name, std::string_view left, std::string_view right,
                               std::string_view origin) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) {
    fail("{}: merge {} (\"{}\" \"{}\"): \"{}\" is not in the vocabulary", origin, merges_.size() + 1, left, right,
         name);
  }
  return found->second;
}

std::optional<TokenId> BpeModelBuilder::find(const std::string& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

BpeModel BpeModelBuilder::build() {
  BpeModel model;
  // Vocabularies may skip ids, but not many.
  const size_t most = 2 * names_.size() + 1024;
  size_t size = 0;
  for (const auto& [id, name] : names_) {
    size = std::max(size, static_cast<size_t>(id) + 1);
    if (size > most) {
      fail("{}: {} tokens, but \"{}\" has the id {}: ids are expected to be below {}", origin_, names_.size(), name, id,
           most);
    }
  }
  model.tokens.resize(size);
  std::vector<bool> merged(size);
  for (const BpeMerge& merge : merges_) merged[static_cast<size_t>(merge.result)] = true;
  for (const TokenId id : special_unless_merged_) {
    if (!merged[static_cast<size_t>(id)]) special_.push_back(id);
  }
  std::sort(special_.begin(), special_.end());
  special_.erase(std::unique(special_.begin(), special_.end()), special_.end());
  for (const auto& [id, name] : names_) {
    if (kind_ == TokenNames::text || std::binary_search(special_.begin(), special_.end(), id)) {
      model.tokens[static_cast<size_t>(id)] = name;
    } else if (auto bytes = from_printable(name)) {
      model.tokens[static_cast<size_t>(id)] = std::move(*bytes);
    } else {
      fail(
          "{}: token {} (\"{}\") is not the printable form of bytes that a byte-level vocabulary has, and not listed "
          "as special",
          origin_, id, name);
    }
  }
  model.merges = std::move(merges_);
  model.special = std::move(special_);
  return model;
}

}  // namespace partita::internal
