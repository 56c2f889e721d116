// What each rank writes in a save, and the manifest that follows from it. Pure.
//
//   const std::vector<RankFile> files = files_of_rank(contents, rank);
//   std::vector<nlohmann::json> ranks = ... describe_save(step, contents, files), gathered from all ranks ...
//   Manifest manifest = plan_manifest(step, contents, ranks);
//   fill_checksums(manifest, ranks, sums);                          // sums: to_json(PieceSums) of each rank
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "partita/checkpoint/contents.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

// A file that a rank writes: pieces that change from checkpoint to checkpoint, or those that do not.
struct RankFile {
  std::string name;
  std::vector<size_t> pieces;  // indices in CheckpointContents::pieces
  std::vector<SafetensorsEntry> entries;
  int64_t bytes = 0;  // with its header
  bool constant = false;
};

// rank-00000.safetensors, also where it is empty; and, if there are such pieces, constant-00000.safetensors. Error: a
// piece without data, or of no tensor; scalars that JSON cannot represent.
[[nodiscard]] std::vector<RankFile> files_of_rank(const CheckpointContents&, int rank);

[[nodiscard]] int64_t bytes_of(const CheckpointContents&, const Piece&);

// What the other ranks need to know of a rank's share.
[[nodiscard]] nlohmann::json describe_save(int64_t step, const CheckpointContents&, std::span<const RankFile>);

// The manifest from all ranks' descriptions, the same on every rank; its checksums are still zero. Error: tensors or
// scalars that differ between ranks; pieces that do not cover the tensors exactly once.
[[nodiscard]] Manifest plan_manifest(int64_t step, const CheckpointContents&, std::span<const nlohmann::json> ranks);

// [piece of the rank's contents][chunk]
using PieceSums = std::vector<std::vector<uint64_t>>;
void fill_checksums(Manifest&, std::span<const nlohmann::json> ranks, std::span<const PieceSums> sums);

}  // namespace partita::internal
