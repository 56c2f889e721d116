// What a checkpoint folder holds: manifest.json, written last, says where every element of every global tensor is.
//
//   const Manifest manifest = read_manifest("runs/a/checkpoints/step-00000100");
//   for (const StoredTensor& t : manifest.tensors) fmt::print("{} in {} pieces\n", t.info.name, t.pieces.size());
//
// {"format": "partita checkpoint", "version": 2, "step": 100, "ranks": 2, "scalars": {...},
//  "files": [{"name": "rank-00000.safetensors", "bytes": 1234}, ...],
//  "tensors": [{"name": "model/head.weight", "dtype": "fp32", "shape": [1024, 768], "pieces": [
//   {"file": 0, "key": "model/head.weight[0:512,0:768]", "box": [0, 512, 0, 768], "checksums": ["..."]}, ...]}, ...],
//  "checksum": "..."}                                      of the text of all the rest, as written without white space
//
// A piece is a box (nn/box.h) of its tensor: [first row, rows, first column, columns]. It is stored row by row, under
// the name of the tensor and in its shape if it is whole, else as NAME[row:end,column:end] in shape [rows, columns].
// Version 1 is read, too: its pieces are flat runs, "begin": 384, "count": 384 in place of the box.
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
inline constexpr int64_t kMostSteps = 1'000'000'000'000;

// What is stored under `key` in files[file]: boxes of a tensor, one after the other.
struct StoredPiece {
  int file = 0;
  std::string key;
  std::vector<Box> boxes;           // one; up to three that are a flat run, where version 1 wrote it
  std::vector<uint64_t> checksums;  // of each chunk of the whole piece (checksum.h)

  [[nodiscard]] int64_t count() const {  // elements
    int64_t sum = 0;
    for (const Box& box : boxes) sum += box.count();
    return sum;
  }
};

struct StoredTensor {
  TensorInfo info;
  std::vector<StoredPiece> pieces;  // by row and column of the first element; together every element once
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
  uint64_t checksum = 0;  // as read; not set in a manifest that is being written
};

// The name of a piece in its file: that of the tensor if it is whole.
[[nodiscard]] std::string piece_key(const TensorInfo&, const Box&);
// Its shape in its file: that of the tensor if it is whole.
[[nodiscard]] std::vector<int64_t> piece_shape(const TensorInfo&, const Box&);
[[nodiscard]] std::string rank_file_name(int rank);

// The piece of this tensor that begins with the box's first element; there is one.
[[nodiscard]] StoredPiece& find_piece(StoredTensor&, const Box&);

// Sorts each tensor's pieces. Error: a tensor twice, or pieces that do not hold each element once; names the tensor and
// the elements (tiling.h).
void check_tensors(std::vector<StoredTensor>& tensors);

// In the newest version. Each piece is one box.
[[nodiscard]] std::string manifest_text(const Manifest&);
// Damaged: not such a text, changed since it was written, a field of another kind or beyond its range, or pieces that
// do not fit. Error: of another version. `path` is for the message.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::filesystem::path& path);
// Also checks that the files are there in their length. Error (and not Damaged): the disk or its rights do not let it.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace partita::internal
