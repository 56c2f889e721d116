#include "partita/tokenizer/formats/tiktoken.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/base/number.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "partita/tokenizer/formats/tokenizer_files.h"
#include "partita/tokenizer/pipeline.h"

namespace partita::internal {
namespace {

// RFC 4648, section 4; padding is optional. Empty if malformed.
std::optional<std::string> from_base64(std::string_view text) {
  const auto value_of = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = value_of(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return bytes;
}

constexpr size_t kLongestToken = 4096;  // bytes; the longest known tokens have 128

struct Line {
  std::string bytes;
  int64_t id;
};

std::optional<Line> read_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return std::nullopt;
  auto bytes = from_base64(line.substr(0, space));
  const auto id = parse_number<int64_t>(line.substr(space + 1));
  if (!bytes || bytes->empty() || bytes->size() > kLongestToken || !id || *id < 0 ||
      *id > std::numeric_limits<TokenId>::max()) {
    return std::nullopt;
  }
  return Line{std::move(*bytes), *id};
}

std::string_view next_line(std::string_view text, size_t& at) {
  const size_t end = std::min(text.find('\n', at), text.size());
  std::string_view line = text.substr(at, end - at);
  at = end + 1;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

using Ranks = std::unordered_map<std::string_view, TokenId>;

// The two tokens whose merge produces `token`, if any.
//
// This pair is unique. Wherever a pair that joins to this token occurs in a text, no merge has crossed its ends, and
// the merges inside it happened in the same order as when the token is encoded alone: lowest rank, leftmost on ties. So
// the last two parts are the same.
std::optional<std::pair<TokenId, TokenId>> last_pair(std::string_view token, const Ranks& ranks) {
  constexpr TokenId kNone = std::numeric_limits<TokenId>::max();
  std::vector<size_t> begins(token.size() + 1);
  for (size_t i = 0; i <= token.size(); ++i) begins[i] = i;
  const auto id_at = [&](size_t part, size_t parts) {  // id of this many parts joined
    if (part + parts >= begins.size()) return kNone;
    const auto found = ranks.find(token.substr(begins[part], begins[part + parts] - begins[part]));
    return found == ranks.end() ? kNone : found->second;
  };
  std::vector<TokenId> pairs(token.size());  // result of joining part i and the next
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = id_at(i, 2);
  while (pairs.size() > 2) {
    const auto lowest = std::min_element(pairs.begin(), pairs.end());
    if (*lowest == kNone) return std::nullopt;
    const auto part = static_cast<size_t>(lowest - pairs.begin());
    begins.erase(begins.begin() + static_cast<ptrdiff_t>(part) + 1);
    pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(part) + 1);
    pairs[part] = id_at(part, 2);
    if (part > 0) pairs[part - 1] = id_at(part - 1, 2);
  }
  const TokenId left = id_at(0, 1), right = id_at(1, 1);
  if (left == kNone || right == kNone) return std::nullopt;
  return std::pair(left, right);
}

std::string names_of_kinds() {
  std::string names;
  for (const TiktokenKind& kind : tiktoken_kinds()) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

TiktokenKind find_kind(const std::filesystem::path& path, std::string_view name, size_t tokens) {
  const std::vector<TiktokenKind> kinds = tiktoken_kinds();
  const std::string stem = path.stem().string();
  for (const TiktokenKind& kind : kinds) {
    if (name.empty() ? stem == kind.name : name == kind.name) return kind;
  }
  if (!name.empty()) fail("{}: a tiktoken file of kind {} is not known: {} are", path.string(), name, names_of_kinds());
  for (const TiktokenKind& kind : kinds) {
    if (tokens == kind.tokens) return kind;
  }
  fail(
      "{}: a tiktoken file of {} tokens does not say how it cuts text and what its special tokens are: name its kind, "
      "{}:KIND with one of {}",
      path.string(), tokens, path.string(), names_of_kinds());
}

}  // namespace

bool looks_like_tiktoken(std::string_view head) {
  size_t at = 0;
  const std::string_view line = next_line(head, at);
  return at <= head.size() && read_line(line).has_value();
}

BpeModel parse_tiktoken(std::string_view text, std::string_view origin) {
  std::vector<Line> lines;
  TokenId most = -1;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = next_line(text, at);
    ++number;
    if (line.empty()) continue;
    auto read = read_line(line);
    if (!read)
      fail("{}: line {}: 1 to 4096 bytes in base64 and an id expected, found \"{}\"", origin, number,
           line.substr(0, 60));
    most = std::max(most, static_cast<TokenId>(read->id));
    lines.push_back(std::move(*read));
  }
  if (lines.empty()) fail("{}: no token", origin);
  if (static_cast<size_t>(most) > 2 * lines.size() + 1024) {
    fail("{}: {} tokens, but one has the id {}: ids are expected to be below {}", origin, lines.size(), most,
         2 * lines.size() + 1024);
  }
  BpeModel model;
  model.rank = MergeRank::result;
  model.tokens.resize(static_cast<size_t>(most) + 1);
  for (Line& line : lines) {
    std::string& token = model.tokens[static_cast<size_t>(line.id)];
    if (!token.empty()) fail("{}: two tokens have the id {}", origin, line.id);
    token = std::move(line.bytes);
  }
  const Ranks ranks = token_ids(model);
  for (TokenId id = 0; id <= most; ++id) {
    const std::string& token = model.tokens[static_cast<size_t>(id)];
    if (token.size() < 2) continue;
    if (const auto pair = last_pair(token, ranks)) model.merges.push_back({pair->first, pair->second, id});
  }
  return model;
}

std::unique_ptr<Tokenizer> load_tiktoken(const std::filesystem::path& path, std::string_view name) {
  BpeModel model = parse_tiktoken(read_tokenizer_file(path), path.string());
  const auto tokens = static_cast<size_t>(
      std::count_if(model.tokens.begin(), model.tokens.end(), [](const std::string& token) { return !token.empty(); }));
  const TiktokenKind kind = find_kind(path, name, tokens);
  PipelineParts parts;
  for (auto& special : kind.special(tokens)) {
    const auto id = static_cast<size_t>(special.id);
    if (id < model.tokens.size() && !model.tokens[id].empty()) {
      fail("{}: the id {} of {} is taken: this is not a file of kind {}", path.string(), id, special.name, kind.name);
    }
    if (special.name == kind.begin_of_text) parts.before = {special.id};
    parts.added.push_back({.content = std::move(special.name), .id = special.id, .special = true});
  }
  parts.model = std::make_unique<ByteLevelBpe>(std::move(model), path.string(),
                                               ByteLevelBpeOptions{kind.pattern, /*ignore_merges=*/true});
  return std::make_unique<Pipeline>(std::move(parts));
}

}  // namespace partita::internal
