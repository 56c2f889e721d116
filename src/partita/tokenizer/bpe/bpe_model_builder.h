// Builds a BpeModel from file contents: token names with ids in any order, and merges by name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"

namespace partita::internal {

// Encoding of token names.
enum class TokenNames {
  printable_bytes,  // byte_level.h
  text,             // UTF-8
};

class BpeModelBuilder {
 public:
  // `origin`, a file name, prefixes error messages.
  explicit BpeModelBuilder(std::string origin, TokenNames names = TokenNames::printable_bytes)
      : origin_(std::move(origin)), kind_(names) {}

  // Error: a negative or huge id; an id or name that is already used.
  void add_token(std::string name, int64_t id);
  // May repeat an existing token with the same name and id, which then becomes special. Its name is text, not printable
  // bytes.
  void add_special(const std::string& name, int64_t id);
  // The same for an added token, which is not special if the vocabulary has it and text can produce it: it is the
  // result of a merge, a single byte, looked up as a whole (`whole_words`, i.e. ignore_merges), or names are text.
  void add_added(const std::string& name, int64_t id, bool whole_words);
  // Call in rank order, after adding all tokens. Error: left, right or their concatenation is not a token.
  void add_merge(std::string_view left, std::string_view right);
  // For merges in a separate file: merges.txt.
  void add_merge(std::string_view left, std::string_view right, std::string_view origin);

  [[nodiscard]] std::optional<TokenId> find(const std::string& name) const;
  // Error: an id far beyond the number of tokens; a name that is not the printable form of bytes.
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
