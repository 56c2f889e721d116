#include "partita/data/indexed_format.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

static_assert(std::endian::native == std::endian::little, "the file format is little-endian, and so is the code");

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kVersion = 1;

struct TypeInfo {
  TokenType type;
  int64_t bytes;
  std::string_view name;
};
constexpr std::array<TypeInfo, 6> kTypes = {{{TokenType::u8, 1, "u8"},
                                             {TokenType::i8, 1, "i8"},
                                             {TokenType::i16, 2, "i16"},
                                             {TokenType::i32, 4, "i32"},
                                             {TokenType::i64, 8, "i64"},
                                             {TokenType::u16, 2, "u16"}}};

const TypeInfo* find_type(uint8_t code) {
  for (const TypeInfo& info : kTypes) {
    if (static_cast<uint8_t>(info.type) == code) return &info;
  }
  return nullptr;
}

const TypeInfo& info_of(TokenType type) {
  const TypeInfo* info = find_type(static_cast<uint8_t>(type));
  PARTITA_CHECK(info, "token type {}", static_cast<int>(type));
  return *info;
}

template <class T>
T load(std::string_view file, size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

template <class T>
void store(std::array<char, IndexHeader::kBytes>& out, size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

std::filesystem::path with_suffix(const std::filesystem::path& prefix, const char* suffix) {
  std::filesystem::path path = prefix;
  path += suffix;
  return path;
}

}  // namespace

int64_t size_of(TokenType type) { return info_of(type).bytes; }
std::string_view name_of(TokenType type) { return info_of(type).name; }

std::filesystem::path bin_path(const std::filesystem::path& prefix) { return with_suffix(prefix, ".bin"); }
std::filesystem::path idx_path(const std::filesystem::path& prefix) { return with_suffix(prefix, ".idx"); }

std::array<char, IndexHeader::kBytes> format_header(const IndexHeader& header) {
  std::array<char, IndexHeader::kBytes> out{};
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  store(out, 9, kVersion);
  store(out, 17, static_cast<uint8_t>(header.type));
  store(out, 18, header.sequences);
  store(out, 26, header.documents + 1);
  return out;
}

IndexHeader parse_header(std::string_view file, std::string_view origin) {
  if (file.size() < static_cast<size_t>(IndexHeader::kBytes)) {
    fail("{}: cut short: a header of {} bytes expected, the file has {}", origin, IndexHeader::kBytes, file.size());
  }
  if (file.substr(0, kMagic.size()) != kMagic) {
    if (file.starts_with("TNTIDX")) {
      fail("{}: fairseq's old index format (TNTIDX), MMIDIDX expected: tokenize the text again", origin);
    }
    fail("{}: not an index of tokens: it does not begin with MMIDIDX", origin);
  }
  if (const auto version = load<uint64_t>(file, 9); version != kVersion) {
    fail("{}: version {} expected, found {}", origin, kVersion, version);
  }
  const auto code = load<uint8_t>(file, 17);
  const TypeInfo* info = find_type(code);
  if (!info) fail("{}: token type 1 to 5 or 8 (integers) expected, found code {}", origin, code);
  const auto sequences = load<uint64_t>(file, 18), document_ends = load<uint64_t>(file, 26);
  // Rough bounds that prevent overflow below; the exact check follows.
  if (sequences > file.size() / 12 || document_ends > file.size() / 8) {
    fail("{}: {} sequences and {} documents do not fit in a file of {} bytes: cut short or damaged", origin, sequences,
         document_ends, file.size());
  }
  if (document_ends == 0) fail("{}: documents + 1 is 0, at least 1 expected", origin);
  const IndexHeader header{info->type, static_cast<int64_t>(sequences), static_cast<int64_t>(document_ends) - 1};
  if (header.file_bytes() != static_cast<int64_t>(file.size())) {
    const bool modes = header.file_bytes() + header.sequences == static_cast<int64_t>(file.size());
    fail("{}: {} bytes expected for {} sequences and {} documents, the file has {}{}", origin, header.file_bytes(),
         header.sequences, header.documents, file.size(),
         modes ? ": multimodal indices (with modes) are not supported" : ": cut short or damaged");
  }
  return header;
}

int64_t check_index(const IndexHeader& header, std::string_view file, std::string_view origin) {
  const auto length = [&](int64_t s) { return load<int32_t>(file, static_cast<size_t>(header.lengths_at() + 4 * s)); };
  const auto offset = [&](int64_t s) { return load<int64_t>(file, static_cast<size_t>(header.offsets_at() + 8 * s)); };
  const auto document_begin = [&](int64_t d) {
    return load<int64_t>(file, static_cast<size_t>(header.document_ends_at() + 8 * d));
  };
  const int64_t token_bytes = size_of(header.type);
  int64_t begin = 0;  // expected offset of sequence s: sequences are contiguous
  for (int64_t s = 0; s < header.sequences; ++s) {
    const int64_t count = length(s);
    if (count < 0) fail("{}: sequence {} has the length {}, 0 or more expected", origin, s, count);
    if (offset(s) != begin) fail("{}: sequence {} begins at byte {}, {} expected", origin, s, offset(s), begin);
    if (begin > std::numeric_limits<int64_t>::max() - count * token_bytes) fail("{}: lengths overflow", origin);
    begin += count * token_bytes;
  }
  if (document_begin(0) != 0) fail("{}: documents begin at sequence {}, 0 expected", origin, document_begin(0));
  for (int64_t d = 0; d < header.documents; ++d) {
    if (document_begin(d + 1) < document_begin(d)) {
      fail("{}: document {} ends at sequence {}, before it begins ({})", origin, d, document_begin(d + 1),
           document_begin(d));
    }
  }
  if (document_begin(header.documents) != header.sequences) {
    fail("{}: documents end at sequence {}, {} expected", origin, document_begin(header.documents), header.sequences);
  }
  return begin / token_bytes;
}

}  // namespace partita
