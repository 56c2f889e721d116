// manifest.json, written last: tells where every element of every global tensor in a checkpoint folder is stored.
//
//   const Manifest manifest = read_manifest("runs/a/checkpoints/step-00000100");
//   for (const StoredTensor& t : manifest.tensors) fmt::print("{} in {} pieces\n", t.info.name, t.pieces.size());
//
// {"format": "partita checkpoint", "version": 2, "step": 100, "ranks": 2, "scalars": {...},
//  "files": [{"name": "rank-00000.safetensors", "bytes": 1234}, ...],
//  "tensors": [{"name": "model/head.weight", "dtype": "fp32", "shape": [1024, 768], "pieces": [
//   {"file": 0, "key": "model/head.weight[0:512,0:768]", "box": [0, 512, 0, 768], "checksums": ["..."]}, ...]}, ...],
//  "checksum": "..."}                                      over the text of everything else, without whitespace
//
// A piece is a box (nn/box.h) of its tensor: [first row, rows, first column, columns], stored row by row. A whole
// tensor has its own name and shape, a part is called NAME[row:end,column:end] with shape [rows, columns]. Version 1
// can be read too: its pieces are flat ranges, with "begin": 384, "count": 384 in place of the box.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/contents.h"

namespace partita::internal {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kConstantFile = "constant-";  // how constant_file_name() begins
inline constexpr int64_t kMostSteps = 1'000'000'000'000;

// The data under `key` in files[file]: boxes of a tensor, concatenated.
struct StoredPiece {
  int file = 0;
  std::string key;
  std::vector<Box> boxes;           // one; up to three for a flat range of version 1
  std::vector<uint64_t> checksums;  // one per chunk of the whole piece (checksum.h)

  [[nodiscard]] int64_t count() const {  // elements
    int64_t sum = 0;
    for (const Box& box : boxes) sum += box.count();
    return sum;
  }
};

struct StoredTensor {
  TensorInfo info;
  std::vector<StoredPiece>
      pieces;  // sorted by row and column of the first element; together they hold every element once
};

struct StoredFile {
  std::string name;
  int64_t bytes = 0;
};

struct Manifest {
  int64_t step = 0;
  int ranks = 0;
  nlohmann::json scalars;
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;
  uint64_t checksum = 0;  // as read; not set in a manifest being written
};

// The name of a piece in its file; the tensor's own name if the piece is the whole tensor.
[[nodiscard]] std::string piece_key(const TensorInfo&, const Box&);
// Its shape in its file; the tensor's own shape if the piece is the whole tensor.
[[nodiscard]] std::vector<int64_t> piece_shape(const TensorInfo&, const Box&);
[[nodiscard]] std::string rank_file_name(int rank);
[[nodiscard]] std::string constant_file_name(int rank);  // of pieces that do not change during a run

// The piece of this tensor that starts at the box's first element; it must exist.
[[nodiscard]] StoredPiece& find_piece(StoredTensor&, const Box&);

// Sorts each tensor's pieces. Error: a duplicate tensor, or pieces that do not hold each element exactly once; names
// the tensor and the elements (tiling.h).
void check_tensors(std::vector<StoredTensor>& tensors);

// Writes the newest version. Each piece must be one box.
[[nodiscard]] std::string manifest_text(const Manifest&);
// Damaged: not a manifest, changed since it was written, a field of the wrong type or out of range, or inconsistent
// pieces. Error: written by another version. `path` is for the message.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::filesystem::path& path);
// Also checks that the files exist with the right lengths. Error (but not Damaged): an I/O or permission problem.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace partita::internal
