#include "partita/checkpoint/manifest.h"

#include <algorithm>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/json.h"
#include "partita/checkpoint/checksum.h"

namespace partita {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFormat = "partita checkpoint";
constexpr int kVersion = 1;

json to_json(const StoredPiece& piece) {
  json sums = json::array();
  for (uint64_t sum : piece.checksums) sums.push_back(checksum_text(sum));
  return {
      {"file", piece.file}, {"key", piece.key}, {"begin", piece.begin}, {"count", piece.count}, {"checksums", sums}};
}

json to_json(const StoredTensor& tensor) {
  json pieces = json::array();
  for (const StoredPiece& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {{"name", tensor.info.name},
          {"dtype", name_of(tensor.info.dtype)},
          {"shape", tensor.info.shape},
          {"pieces", pieces}};
}

StoredPiece piece_from(const json& value) {
  StoredPiece piece{value.at("file"), value.at("key"), value.at("begin"), value.at("count"), {}};
  for (const json& sum : value.at("checksums"))
    piece.checksums.push_back(parse_checksum(sum.get_ref<const std::string&>()));
  return piece;
}

StoredTensor tensor_from(const json& value) {
  StoredTensor tensor{
      {value.at("name"), value.at("shape"), parse_dtype(value.at("dtype").get_ref<const std::string&>())}, {}};
  for (const json& piece : value.at("pieces")) tensor.pieces.push_back(piece_from(piece));
  return tensor;
}

// What the checksum cannot promise: that the writer was right.
void check_references(Manifest& manifest) {
  check_tensors(manifest.tensors);
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const StoredPiece& piece : tensor.pieces) {
      if (piece.file < 0 || piece.file >= std::ssize(manifest.files))
        fail("a piece of '{}' lies in file {} of {}", tensor.info.name, piece.file, manifest.files.size());
      if (std::ssize(piece.checksums) != chunk_count(piece.count * size_of(tensor.info.dtype)))
        fail("a piece of '{}' has {} checksums", tensor.info.name, piece.checksums.size());
    }
  }
  for (const StoredFile& file : manifest.files)
    if (fs::path(file.name).filename() != file.name) fail("the file name '{}' leads out of the folder", file.name);
}

Manifest manifest_from(json root) {
  if (!root.is_object() || root.value("format", json()) != kFormat) fail("it is no manifest of a checkpoint");
  if (root.at("version") != kVersion)
    fail("it has version {}, this program reads version {}: use the newer program that wrote it",
         root.at("version").dump(), kVersion);
  const uint64_t expected = parse_checksum(root.at("checksum").get_ref<const std::string&>());
  root.erase("checksum");
  if (checksum(root.dump()) != expected) fail("its checksum does not match: it was changed after it was written");
  Manifest manifest{root.at("step"), root.at("ranks"), root.at("scalars"), {}, {}};
  for (const json& file : root.at("files")) manifest.files.push_back({file.at("name"), file.at("bytes")});
  for (const json& tensor : root.at("tensors")) manifest.tensors.push_back(tensor_from(tensor));
  check_references(manifest);
  return manifest;
}

}  // namespace

std::string piece_key(const TensorInfo& tensor, int64_t begin, int64_t count) {
  if (count == tensor.count()) return tensor.name;
  return fmt::format("{}[{}:{}]", tensor.name, begin, begin + count);
}

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

void check_tensors(std::vector<StoredTensor>& tensors) {
  std::set<std::string_view> names;
  for (StoredTensor& tensor : tensors) {
    const std::string& name = tensor.info.name;
    if (!names.insert(name).second) fail("the tensor '{}' occurs twice", name);
    const int64_t count = tensor.info.count();
    std::ranges::sort(tensor.pieces, {}, &StoredPiece::begin);
    int64_t end = 0;
    for (const StoredPiece& piece : tensor.pieces) {
      if (piece.begin < 0 || piece.count <= 0 || piece.count > count - piece.begin)
        fail("{} elements from {} of '{}', which has {}", piece.count, piece.begin, name, count);
      if (piece.begin < end)
        fail("elements [{}, {}) of '{}' are stored twice", piece.begin, std::min(end, piece.begin + piece.count), name);
      if (piece.begin > end) fail("elements [{}, {}) of '{}' are stored by no rank", end, piece.begin, name);
      end = piece.begin + piece.count;
    }
    if (end < count) fail("elements [{}, {}) of '{}' are stored by no rank", end, count, name);
  }
}

std::string manifest_text(const Manifest& manifest) {
  json root = {{"format", kFormat},       {"version", kVersion},         {"step", manifest.step},
               {"ranks", manifest.ranks}, {"scalars", manifest.scalars}, {"files", json::array()},
               {"tensors", json::array()}};
  for (const StoredFile& file : manifest.files) root["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  for (const StoredTensor& tensor : manifest.tensors) root["tensors"].push_back(to_json(tensor));
  root["checksum"] = checksum_text(checksum(root.dump()));
  return root.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text, const fs::path& path) {
  json root = parse_json(text, path.string());
  try {
    return manifest_from(std::move(root));
  } catch (const std::exception& error) {  // Error of ours, or json's: a key is missing, a value of another type
    fail("{} cannot be used: {}", path.string(), error.what());
  }
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) fail("{} is no checkpoint: it holds no {}", folder.string(), kManifestName);
  Manifest manifest = parse_manifest(read_file(path), path);
  for (const StoredFile& file : manifest.files) {
    std::error_code error;
    const auto bytes = fs::file_size(folder / file.name, error);
    if (error) fail("{} is missing from the checkpoint {}", file.name, folder.string());
    if (std::cmp_not_equal(bytes, file.bytes))
      fail("{} is damaged: it has {} bytes instead of {}", (folder / file.name).string(), bytes, file.bytes);
  }
  return manifest;
}

}  // namespace partita
