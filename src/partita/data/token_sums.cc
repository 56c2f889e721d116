#include "partita/data/token_sums.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/number.h"
#include "partita/data/index_cache.h"

namespace partita::internal {
namespace {

constexpr std::string_view kTitle = "partita-sums 1";
constexpr size_t kDigits = 32;

std::string sum_of(std::string_view text) { return content_hash(std::as_bytes(std::span(text))); }

// Reads a file line by line and splits lines into words.
class Lines {
 public:
  Lines(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}
  // The words of the next line. Error: an unexpected number of words or first word.
  std::vector<std::string_view> next(std::string_view name, size_t words) {
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) damaged();
    std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    std::vector<std::string_view> found;
    for (size_t space = 0; space != std::string_view::npos;) {
      space = line.find(' ');
      found.push_back(line.substr(0, space));
      if (space != std::string_view::npos) line.remove_prefix(space + 1);
    }
    if (found.size() != words || (!name.empty() && found[0] != name)) damaged();
    return found;
  }
  int64_t number(std::string_view word) const {
    const auto value = parse_number<int64_t>(word);
    if (!value || *value < -1) damaged();
    return *value;
  }
  std::string digits(std::string_view word) const {
    if (word.size() != kDigits || word.find_first_not_of("0123456789abcdef") != std::string_view::npos) damaged();
    return std::string(word);
  }
  [[nodiscard]] size_t at() const { return at_; }
  [[noreturn]] void damaged() const {
    fail("{} is damaged or cut short near byte {}: remove it, and checksums are not checked", origin_, at_);
  }

 private:
  std::string_view text_, origin_;
  size_t at_ = 0;
};

template <class T>
int64_t largest_of(std::span<const std::byte> tokens) {
  int64_t largest = -1;
  for (size_t at = 0; at + sizeof(T) <= tokens.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tokens.data() + at, sizeof value);
    largest = std::max(largest, static_cast<int64_t>(value));
  }
  return largest;
}

}  // namespace

std::filesystem::path sums_path(const std::filesystem::path& prefix) {
  std::filesystem::path path = prefix;
  path += ".sums";
  return path;
}

std::string format(const TokenSums& sums) {
  std::string text =
      fmt::format("{}\nbin {}\nidx {} {}\nvocabulary {} {}\nlargest {}\nblock {}\n", kTitle, sums.bin_bytes,
                  sums.index_bytes, sums.index, sums.vocabulary, sums.fingerprint, sums.largest, TokenSums::kBlock);
  for (const std::string& block : sums.blocks) text += block + "\n";
  return text + fmt::format("end {}\n", sum_of(text));
}

TokenSums parse_token_sums(std::string_view text, std::string_view origin) {
  if (!text.starts_with(std::string(kTitle) + "\n"))
    fail("{}: it does not begin with \"{}\": not a file of checksums, or of a later version of Partita", origin,
         kTitle);
  Lines lines(text, origin);
  (void)lines.next("partita-sums", 2);
  TokenSums sums;
  sums.bin_bytes = lines.number(lines.next("bin", 2)[1]);
  const auto index = lines.next("idx", 3);
  sums.index_bytes = lines.number(index[1]);
  sums.index = lines.digits(index[2]);
  const auto vocabulary = lines.next("vocabulary", 3);
  sums.vocabulary = lines.number(vocabulary[1]);
  sums.fingerprint = vocabulary[2] == TokenSums::kUnknown ? std::string(vocabulary[2]) : lines.digits(vocabulary[2]);
  sums.largest = lines.number(lines.next("largest", 2)[1]);
  if (lines.number(lines.next("block", 2)[1]) != TokenSums::kBlock || sums.bin_bytes < 0) lines.damaged();
  const int64_t blocks = (sums.bin_bytes + TokenSums::kBlock - 1) / TokenSums::kBlock;
  if (blocks > static_cast<int64_t>(text.size())) lines.damaged();
  for (int64_t b = 0; b < blocks; ++b) sums.blocks.push_back(lines.digits(lines.next("", 1)[0]));
  const size_t end = lines.at();
  if (lines.digits(lines.next("end", 2)[1]) != sum_of(text.substr(0, end)) || lines.at() != text.size())
    lines.damaged();
  return sums;
}

std::optional<TokenSums> read_token_sums(const std::filesystem::path& prefix) {
  const std::filesystem::path path = sums_path(prefix);
  if (!std::filesystem::exists(path)) return std::nullopt;
  return parse_token_sums(read_file(path), path.string());
}

bool same_index(const TokenSums& sums, std::span<const std::byte> index) {
  return sums.index_bytes == static_cast<int64_t>(index.size()) && sums.index == content_hash(index);
}

void verify(const TokenSums& sums, const std::filesystem::path& prefix, int part, int parts) {
  const MappedFile index(idx_path(prefix), MappedFile::Access::sequential);
  const MappedFile bin(bin_path(prefix), MappedFile::Access::sequential);
  const std::string remedy = fmt::format(
      "restore it or make it again (if another program has written it since, remove {})", sums_path(prefix).string());
  if (bin.size() != sums.bin_bytes)
    fail("{}: {} bytes expected, found {}: {}", bin.path().string(), sums.bin_bytes, bin.size(), remedy);
  if (!same_index(sums, index.bytes()))
    fail("{} does not have its checksum of {}: {}", index.path().string(), sums_path(prefix).filename().string(),
         remedy);
  const auto blocks = static_cast<int64_t>(sums.blocks.size());
  for (int64_t b = blocks * part / parts; b < blocks * (part + 1) / parts; ++b) {
    const int64_t begin = b * TokenSums::kBlock, end = std::min(begin + TokenSums::kBlock, bin.size());
    const auto block = bin.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    if (content_hash(block) != sums.blocks[static_cast<size_t>(b)])
      fail("{}: bytes {} to {} do not have their checksum of {}: {}", bin.path().string(), begin, end - 1,
           sums_path(prefix).filename().string(), remedy);
  }
}

std::string fingerprint(const Tokenizer& tokenizer) {
  RunningSum sum;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.bytes_of(id);
    const uint64_t size = bytes.size();
    sum.add(std::as_bytes(std::span(&size, 1)));
    sum.add(std::as_bytes(std::span(bytes)));
  }
  return sum.finish();
}

struct RunningSum::State {
  XXH3_state_t hash;
};

RunningSum::RunningSum() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
RunningSum::RunningSum(RunningSum&&) noexcept = default;
RunningSum& RunningSum::operator=(RunningSum&&) noexcept = default;
RunningSum::~RunningSum() = default;

void RunningSum::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string RunningSum::finish() {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  XXH3_128bits_reset(&state_->hash);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

void BlockSums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), static_cast<size_t>(TokenSums::kBlock - in_block_)));
    sum_.add(piece);
    in_block_ += static_cast<int64_t>(piece.size());
    bytes = bytes.subspan(piece.size());
    if (in_block_ < TokenSums::kBlock) continue;
    blocks_.push_back(sum_.finish());
    in_block_ = 0;
  }
}

std::vector<std::string> BlockSums::finish() {
  if (in_block_ > 0) blocks_.push_back(sum_.finish());
  in_block_ = 0;
  return std::move(blocks_);
}

int64_t largest_token(TokenType type, std::span<const std::byte> tokens) {
  switch (type) {
    case TokenType::u8:
      return largest_of<uint8_t>(tokens);
    case TokenType::i8:
      return largest_of<int8_t>(tokens);
    case TokenType::i16:
      return largest_of<int16_t>(tokens);
    case TokenType::i32:
      return largest_of<int32_t>(tokens);
    case TokenType::i64:
      return largest_of<int64_t>(tokens);
    case TokenType::u16:
      return largest_of<uint16_t>(tokens);
  }
  return -1;
}

}  // namespace partita::internal
