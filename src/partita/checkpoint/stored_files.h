// The files of a checkpoint, opened on first use, and their pieces, checked against the manifest.
//
//   StoredFiles files(folder, manifest);
//   std::span<const std::byte> elements = files.bytes(tensor.info, tensor.pieces[0]);
//   files.check(tensor.info, tensor.pieces[0], 0);          // the checksum of its first chunk
//   files.read(tensor, box, [&](int64_t to, std::span<const std::byte> run) { copy(run, out + to * item); });
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

class StoredFiles {
 public:
  // `manifest` must outlive this object and not move.
  StoredFiles(std::filesystem::path folder, const Manifest& manifest);

  // Error: the file is damaged, or has no such piece.
  [[nodiscard]] std::span<const std::byte> bytes(const TensorInfo&, const StoredPiece&);
  // Reads a chunk of the piece, only the first time it is asked for. Error: its checksum differs from the manifest's;
  // names file and tensor.
  void check(const TensorInfo&, const StoredPiece&, int64_t chunk);
  // Passes the elements of a box, in whatever pieces they are stored, to `take`: runs of elements, each with the place
  // of its first one in the box. The bytes stay valid as long as this object. Error: as check, before the run is
  // passed.
  void read(const StoredTensor&, const Box&, const std::function<void(int64_t to, std::span<const std::byte>)>& take);
  // The whole box, row by row, into `out`.
  void read(const StoredTensor&, const Box&, std::span<std::byte> out);

 private:
  const SafetensorsFile& open(int file);

  std::filesystem::path folder_;
  const Manifest& manifest_;
  std::vector<std::optional<SafetensorsFile>> files_;
  std::set<std::pair<const StoredPiece*, int64_t>> checked_;
};

}  // namespace partita::internal
