#include "partita/data/indexed_dataset.h"

#include <limits>

#include "partita/base/error.h"

namespace partita {
namespace {

template <class T>
bool copy_as_int32(const std::byte* from, std::span<int32_t> out) {
  bool fits = true;
  for (int32_t& token : out) {
    T value;
    std::memcpy(&value, from, sizeof value);
    from += sizeof value;
    token = static_cast<int32_t>(value);
    fits &= static_cast<T>(token) == value;
  }
  return fits;
}

bool copy(TokenType type, const std::byte* from, std::span<int32_t> out) {
  switch (type) {
    case TokenType::u8:
      return copy_as_int32<uint8_t>(from, out);
    case TokenType::i8:
      return copy_as_int32<int8_t>(from, out);
    case TokenType::i16:
      return copy_as_int32<int16_t>(from, out);
    case TokenType::i32:
      return copy_as_int32<int32_t>(from, out);
    case TokenType::i64:
      return copy_as_int32<int64_t>(from, out);
    case TokenType::u16:
      return copy_as_int32<uint16_t>(from, out);
  }
  return false;
}

// A prefix given with an ending is a common slip.
void require_files(const std::filesystem::path& prefix) {
  for (const auto& path : {idx_path(prefix), bin_path(prefix)}) {
    if (std::filesystem::exists(path)) continue;
    const auto extension = prefix.extension();
    fail("{} does not exist{}", path.string(),
         extension == ".bin" || extension == ".idx"
             ? ": give the path without its ending"
             : ": PREFIX.bin and PREFIX.idx expected, as `tokenize` writes them");
  }
}

}  // namespace

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix) : prefix_(prefix) {
  require_files(prefix);
  index_ = MappedFile(idx_path(prefix), MappedFile::Access::sequential);
  bin_ = MappedFile(bin_path(prefix), MappedFile::Access::random);
  header_ = parse_header(index_.text(), index_.path().string());
  check_index();
}

void IndexedDataset::check_index() {
  const std::string name = index_.path().string();
  const int64_t token_bytes = size_of(header_.type);
  int64_t begin = 0;  // where sequence s is expected: they follow each other without gaps
  for (int64_t s = 0; s < header_.sequences; ++s) {
    const int64_t count = length(s), offset = load<int64_t>(header_.offsets_at() + 8 * s);
    if (count < 0) fail("{}: sequence {} has the length {}, 0 or more expected", name, s, count);
    if (offset != begin) fail("{}: sequence {} begins at byte {}, {} expected", name, s, offset, begin);
    if (begin > std::numeric_limits<int64_t>::max() - count * token_bytes) fail("{}: lengths overflow", name);
    begin += count * token_bytes;
  }
  if (begin != bin_.size()) {
    fail("{}: {} bytes expected ({} sequences of {}, {} tokens by {}), the file has {}: {}", bin_.path().string(),
         begin, header_.sequences, name_of(header_.type), begin / token_bytes, index_.path().filename().string(),
         bin_.size(), bin_.size() < begin ? "cut short" : "not the file of this index");
  }
  tokens_ = begin / token_bytes;
  if (document_begin(0) != 0) fail("{}: documents begin at sequence {}, 0 expected", name, document_begin(0));
  for (int64_t d = 0; d < header_.documents; ++d) {
    if (document_begin(d + 1) < document_begin(d)) {
      fail("{}: document {} ends at sequence {}, before it begins ({})", name, d, document_begin(d + 1),
           document_begin(d));
    }
  }
  if (document_begin(header_.documents) != header_.sequences) {
    fail("{}: documents end at sequence {}, {} expected", name, document_begin(header_.documents), header_.sequences);
  }
}

void IndexedDataset::read(int64_t sequence, int64_t begin, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (sequence < 0 || sequence >= sequences() || begin < 0 || count > length(sequence) - begin) {
    fail("{}: tokens {} to {} of sequence {} asked for, which has {}; there are {} sequences", prefix_.string(), begin,
         begin + count, sequence, sequence >= 0 && sequence < sequences() ? length(sequence) : 0, sequences());
  }
  const int64_t at = load<int64_t>(header_.offsets_at() + 8 * sequence) + begin * size_of(header_.type);
  if (!copy(header_.type, bin_.bytes().data() + at, out)) {
    fail("{}: sequence {} holds a token beyond 32 bits", bin_.path().string(), sequence);
  }
}

}  // namespace partita
