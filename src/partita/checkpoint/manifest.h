// What a checkpoint folder holds: manifest.json, written last, says where every element of every global tensor is.
//
//   const Manifest manifest = read_manifest("runs/a/checkpoints/step-00000100");
//   for (const StoredTensor& t : manifest.tensors) fmt::print("{} in {} pieces\n", t.info.name, t.pieces.size());
//
// {"format": "partita checkpoint", "version": 1, "step": 100, "ranks": 2, "scalars": {...},
//  "files": [{"name": "rank-00000.safetensors", "bytes": 1234}, ...],
//  "tensors": [{"name": "model/final_norm.weight", "dtype": "fp32", "shape": [768], "pieces": [
//   {"file": 0, "key": "model/final_norm.weight[0:384]", "begin": 0, "count": 384, "checksums": ["..."]}, ...]}, ...],
//  "checksum": "..."}                                      of the text of all the rest, as written without white space
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/state.h"

namespace partita {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr int64_t kMostSteps = 1'000'000'000'000;

// Elements [begin, begin + count) of a tensor, under `key` in files[file].
struct StoredPiece {
  int file = 0;
  std::string key;
  int64_t begin = 0, count = 0;
  std::vector<uint64_t> checksums;  // of each chunk (checksum.h)
};

struct StoredTensor {
  TensorInfo info;
  std::vector<StoredPiece> pieces;  // ascending; together every element once
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
};

// The name of a piece in its file: that of the tensor if it is whole.
[[nodiscard]] std::string piece_key(const TensorInfo&, int64_t begin, int64_t count);
[[nodiscard]] std::string rank_file_name(int rank);

// Sorts each tensor's pieces. Error: a tensor twice, or pieces that do not hold each element once; names the tensor and
// the elements.
void check_tensors(std::vector<StoredTensor>& tensors);

[[nodiscard]] std::string manifest_text(const Manifest&);
// Damaged: not such a text, changed since it was written, a field of another kind or beyond its range, or pieces that
// do not fit. Error: of another version. `path` is for the message.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::filesystem::path& path);
// Also checks that the files are there in their length. Error (and not Damaged): the disk or its rights do not let it.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace partita
