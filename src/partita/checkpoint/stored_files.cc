#include "partita/checkpoint/stored_files.h"

#include <cstring>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/damage.h"
#include "partita/checkpoint/reshard.h"

namespace partita::internal {

StoredFiles::StoredFiles(std::filesystem::path folder, const Manifest& manifest)
    : folder_(std::move(folder)), manifest_(manifest), files_(manifest.files.size()) {}

const SafetensorsFile& StoredFiles::open(int file) {
  const auto index = static_cast<size_t>(file);
  if (!files_[index]) files_[index].emplace(folder_ / manifest_.files[index].name);
  return *files_[index];
}

std::span<const std::byte> StoredFiles::bytes(const TensorInfo& tensor, const StoredPiece& piece) {
  const SafetensorsFile& file = open(piece.file);
  const SafetensorsEntry& entry = file.at(piece.key);
  const std::span<const std::byte> bytes = file.bytes(entry);
  if (entry.type != element_type(tensor.dtype) || std::ssize(bytes) != piece.count() * size_of(tensor.dtype))
    damaged("{} holds '{}' as {} bytes of {}, but the manifest says {} elements of {}", file.path().string(), piece.key,
            bytes.size(), name_of(entry.type), piece.count(), name_of(tensor.dtype));
  return bytes;
}

void StoredFiles::check(const TensorInfo& tensor, const StoredPiece& piece, int64_t chunk) {
  if (!checked_.emplace(&piece, chunk).second) return;
  if (checksum(chunk_of(bytes(tensor, piece), chunk)) != piece.checksums.at(static_cast<size_t>(chunk)))
    damaged("{} is damaged: the checksum of '{}' does not match: use an older checkpoint",
            open(piece.file).path().string(), piece.key);
}

void StoredFiles::read(const StoredTensor& tensor, const Box& box,
                       const std::function<void(int64_t to, std::span<const std::byte>)>& take) {
  const int64_t item = size_of(tensor.info.dtype);
  const StoredPiece* piece = nullptr;
  std::span<const std::byte> elements;
  for (const Copy& copy : plan_copies(tensor.pieces, box)) {
    if (const StoredPiece& source = tensor.pieces[static_cast<size_t>(copy.piece)]; &source != piece) {
      piece = &source;
      elements = bytes(tensor.info, source);
    }
    const int64_t begin = copy.from * item, size = copy.count * item;
    for (int64_t chunk = begin / kChunkBytes; chunk * kChunkBytes < begin + size; ++chunk)
      check(tensor.info, *piece, chunk);
    take(copy.to, elements.subspan(static_cast<size_t>(begin), static_cast<size_t>(size)));
  }
}

void StoredFiles::read(const StoredTensor& tensor, const Box& box, std::span<std::byte> out) {
  const int64_t item = size_of(tensor.info.dtype);
  PARTITA_CHECK(std::ssize(out) == box.count() * item, "{} bytes for {} elements", out.size(), box.count());
  read(tensor, box, [&](int64_t to, std::span<const std::byte> run) {
    std::memcpy(out.data() + to * item, run.data(), run.size());
  });
}

}  // namespace partita::internal
