// Builds a BpeModel from what the file formats hold: names with ids in any order, and merges by name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"

namespace partita::internal {

// What the names of tokens are.
enum class TokenNames {
  printable_bytes,  // byte_level.h
  text,             // UTF-8
};

class BpeModelBuilder {
 public:
  // `origin`, a file name, begins the messages.
  explicit BpeModelBuilder(std::string origin, TokenNames names = TokenNames::printable_bytes)
      : origin_(std::move(origin)), kind_(names) {}

  // Error: a negative or huge id, an id or a name that is taken.
  void add_token(std::string name, int64_t id);
  // May repeat a token of the same name and id: it becomes special. Its name is text, not printable bytes.
  void add_special(const std::string& name, int64_t id);
  // The same for an added token, which is no special one if the vocabulary has it and text may become it: a merge makes
  // it, it is one byte, `whole_words` are looked up (ignore_merges), or names are text.
  void add_added(const std::string& name, int64_t id, bool whole_words);
  // In rank order, after the tokens. Error: left, right, or the two joined are no tokens.
  void add_merge(std::string_view left, std::string_view right);
  // For a file in its own right: merges.txt.
  void add_merge(std::string_view left, std::string_view right, std::string_view origin);

  [[nodiscard]] std::optional<TokenId> find(const std::string& name) const;
  // Error: an id that is far beyond the number of tokens; a name that is not the printable form of bytes.
  [[nodiscard]] BpeModel build();

 private:
  [[nodiscard]] TokenId id_of(const std::string& name, std::string_view left, std::string_view right,
                              std::string_view origin) const;

  std::string origin_;
  TokenNames kind_;
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<TokenId, std::string> names_;
  std::vector<TokenId> special_, special_unless_merged_;
  std::vector<BpeMerge> merges_;
};

}  // namespace partita::internal
