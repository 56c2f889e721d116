#include "partita/data/indexed_dataset.h"

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

template <class T>
bool copy_as_int32(const std::byte* from, std::span<int32_t> out) {
  bool fits = true;
  for (int32_t& token : out) {
    T value;
    std::memcpy(&value, from, sizeof value);
    from += sizeof value;
    token = static_cast<int32_t>(value);
    fits &= static_cast<T>(token) == value && token >= 0;
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

// Handles a common mistake: a prefix given with its file extension.
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
  const std::string name = index_.path().string();
  header_ = parse_header(index_.text(), name);
  tokens_ = check_index(header_, index_.text(), name);
  if (const int64_t bytes = tokens_ * size_of(header_.type); bytes != bin_.size()) {
    fail("{}: {} bytes expected ({} sequences of {}, {} tokens by {}), the file has {}: {}", bin_.path().string(),
         bytes, header_.sequences, name_of(header_.type), tokens_, index_.path().filename().string(), bin_.size(),
         bin_.size() < bytes ? "cut short" : "not the file of this index");
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
    fail("{}: sequence {} holds a token that is negative or beyond 32 bits: 0 to 2147483647 expected",
         bin_.path().string(), sequence);
  }
}

}  // namespace partita
