#include "partita/checkpoint/save_plan.h"

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/checkpoint/checksum.h"

namespace partita::internal {
namespace {

using nlohmann::json;

void check_contents(const CheckpointContents& state) {
  for (const Piece& piece : state.pieces) {
    PARTITA_CHECK(piece.tensor >= 0 && piece.tensor < std::ssize(state.tensors), "tensor {}", piece.tensor);
    PARTITA_CHECK(piece.data || piece.elsewhere || piece.box.count() == 0, "no data for '{}'",
                  state.tensors[static_cast<size_t>(piece.tensor)].name);
  }
  // Numbers that JSON lacks (NaN, infinity) would read back as null.
  if (parse_json(state.scalars.dump(), "scalars") != state.scalars)
    fail("the scalars of the checkpoint hold a number that is not finite: {}", state.scalars.dump());
}

json tensors_to_json(const std::vector<TensorInfo>& tensors) {
  json list = json::array();
  for (const TensorInfo& tensor : tensors) list.push_back({tensor.name, name_of(tensor.dtype), tensor.shape});
  return list;
}

RankFile file_of(const CheckpointContents& state, std::string name, bool constant) {
  RankFile file{.name = std::move(name), .pieces = {}, .entries = {}, .constant = constant};
  for (size_t i = 0; i < state.pieces.size(); ++i) {
    const Piece& piece = state.pieces[i];
    if (piece.box.count() == 0 || piece.constant != constant) continue;
    const TensorInfo& tensor = state.tensors[static_cast<size_t>(piece.tensor)];
    file.pieces.push_back(i);
    file.entries.push_back({piece_key(tensor, piece.box), element_type(tensor.dtype), piece_shape(tensor, piece.box)});
    file.bytes += bytes_of(state, piece);
  }
  file.bytes += std::ssize(make_safetensors_header(file.entries));
  return file;
}

// In a rank's description.
struct DescribedPiece {
  size_t piece, tensor, file;
  Box box;
};
DescribedPiece piece_from(const json& p) {
  return {.piece = p[0], .tensor = p[1], .file = p[2], .box = {p[3], p[4], p[5], p[6]}};
}

}  // namespace

int64_t bytes_of(const CheckpointContents& state, const Piece& piece) {
  return piece.box.count() * size_of(state.tensors[static_cast<size_t>(piece.tensor)].dtype);
}

std::vector<RankFile> files_of_rank(const CheckpointContents& state, int rank) {
  check_contents(state);
  std::vector<RankFile> files = {file_of(state, rank_file_name(rank), false)};
  RankFile constant = file_of(state, constant_file_name(rank), true);
  if (!constant.pieces.empty()) files.push_back(std::move(constant));
  return files;
}

json describe_save(int64_t step, const CheckpointContents& state, std::span<const RankFile> files) {
  json described = json::array(), pieces = json::array();
  for (size_t f = 0; f < files.size(); ++f) {
    described.push_back({files[f].name, files[f].bytes});
    for (const size_t i : files[f].pieces) {
      const Piece& p = state.pieces[i];
      pieces.push_back({i, p.tensor, f, p.box.row, p.box.rows, p.box.column, p.box.columns});
    }
  }
  return {{"step", step},
          {"tensors", checksum(tensors_to_json(state.tensors).dump())},
          {"scalars", checksum(state.scalars.dump())},
          {"files", std::move(described)},
          {"pieces", std::move(pieces)}};
}

Manifest plan_manifest(int64_t step, const CheckpointContents& state, std::span<const json> ranks) {
  Manifest manifest{step, static_cast<int>(ranks.size()), state.scalars, {}, {}};
  for (const TensorInfo& tensor : state.tensors) manifest.tensors.push_back({tensor, {}});
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const char* key : {"step", "tensors", "scalars"})
      PARTITA_CHECK(ranks[rank][key] == ranks[0][key], "rank {} and rank 0 do not save the same {}", rank, key);
    const auto first = std::ssize(manifest.files);
    for (const json& file : ranks[rank]["files"]) manifest.files.push_back({file[0], file[1]});
    for (const json& described : ranks[rank]["pieces"]) {
      const DescribedPiece p = piece_from(described);
      StoredTensor& tensor = manifest.tensors[p.tensor];
      const int64_t chunks = chunk_count(p.box.count() * size_of(tensor.info.dtype));
      tensor.pieces.push_back({static_cast<int>(first + static_cast<int64_t>(p.file)),
                               piece_key(tensor.info, p.box),
                               {p.box},
                               std::vector<uint64_t>(static_cast<size_t>(chunks))});
    }
  }
  check_tensors(manifest.tensors);
  return manifest;
}

void fill_checksums(Manifest& manifest, std::span<const json> ranks, std::span<const PieceSums> sums) {
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const json& described : ranks[rank]["pieces"]) {
      const DescribedPiece p = piece_from(described);
      StoredPiece& piece = find_piece(manifest.tensors[p.tensor], p.box);
      const std::vector<uint64_t>& of_piece = sums[rank].at(p.piece);
      PARTITA_CHECK(of_piece.size() == piece.checksums.size(), "{} checksums of '{}', expected {}", of_piece.size(),
                    piece.key, piece.checksums.size());
      piece.checksums = of_piece;
    }
}

}  // namespace partita::internal
