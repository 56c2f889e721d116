// Loading: check everything, agree with all ranks, copy.
#include <cstring>
#include <map>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/reshard.h"
#include "partita/checkpoint/stored_files.h"
#include "partita/checkpoint/tiling.h"

namespace partita {
using namespace internal;
namespace {

namespace fs = std::filesystem;

struct ByteCopy {
  const Piece* to;
  int64_t offset;  // byte offset in the piece
  std::span<const std::byte> from;

  void operator()() const {
    if (to->data != nullptr)
      std::memcpy(to->data + offset, from.data(), from.size());
    else
      to->elsewhere->write(offset, from);
  }
};

void check_same_model(const fs::path& folder, const Manifest& manifest, const CheckpointContents& wanted,
                      const LoadOptions& options) {
  const std::string differences = describe_differences(manifest.tensors, wanted.tensors, options.ignore);
  if (!differences.empty())
    fail("{} is a checkpoint of another model or optimizer: {}: load it with the configuration it was trained with",
         folder.string(), differences);
}

// Checks what this rank will read, including checksums, and lists the copies to make.
std::vector<ByteCopy> prepare(const Manifest& manifest, StoredFiles& files, const CheckpointContents& wanted) {
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : manifest.tensors) stored.emplace(tensor.info.name, &tensor);

  std::vector<ByteCopy> copies;
  for (const Piece& piece : wanted.pieces) {
    PARTITA_CHECK(piece.tensor >= 0 && piece.tensor < std::ssize(wanted.tensors), "tensor {}", piece.tensor);
    const TensorInfo& info = wanted.tensors[static_cast<size_t>(piece.tensor)];
    PARTITA_CHECK(contains(whole_box(info.shape), piece.box), "{} of '{}', whose shape is {}",
                  box_text(info, piece.box), info.name, shape_text(info.shape));
    const std::vector<StoredPiece>& sources = stored.at(info.name)->pieces;
    const int64_t item = size_of(info.dtype);
    for (const Copy& copy : plan_copies(sources, piece.box)) {
      const StoredPiece& source = sources[static_cast<size_t>(copy.piece)];
      const int64_t begin = copy.from * item, bytes = copy.count * item;
      for (int64_t chunk = begin / kChunkBytes; chunk * kChunkBytes < begin + bytes; ++chunk)
        files.check(info, source, chunk);
      copies.push_back({&piece, copy.to * item,
                        files.bytes(info, source).subspan(static_cast<size_t>(begin), static_cast<size_t>(bytes))});
    }
  }
  return copies;
}

}  // namespace

nlohmann::json load_checkpoint(const fs::path& folder, const CheckpointContents& wanted, Peers& peers,
                               const LoadOptions& options) {
  Manifest manifest;
  std::optional<StoredFiles> files;
  std::vector<ByteCopy> copies;
  const std::vector<std::string> read = agree(peers, [&] {
    manifest = read_manifest(folder);
    check_same_model(folder, manifest, wanted, options);
    files.emplace(folder, manifest);
    copies = prepare(manifest, *files, wanted);
    return checksum_text(manifest.checksum);
  });
  for (size_t rank = 1; rank < read.size(); ++rank)
    if (read[rank] != read[0])
      fail("{} is not the same checkpoint on ranks 0 and {}: it must lie in a folder that all ranks share",
           folder.string(), rank);
  for (const ByteCopy& copy : copies) copy();
  return manifest.scalars;
}

nlohmann::json read_scalars(const fs::path& folder) { return read_manifest(folder).scalars; }

}  // namespace partita
