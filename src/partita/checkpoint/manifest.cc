#include "partita/checkpoint/manifest.h"

#include <algorithm>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/json.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/damage.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/stored_field.h"

namespace partita {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFormat = "partita checkpoint";
constexpr int kVersion = 1;

class OtherVersion : public Error {
 public:
  using Error::Error;
};

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

constexpr int64_t kMostRanks = 1'000'000, kMostDimensions = 8;
constexpr int64_t kMostBytes = int64_t{1} << 60;  // of a tensor or a file: sums of some stay in 64 bits

StoredPiece piece_from(const StoredField& value, int64_t files) {
  StoredPiece piece{.file = static_cast<int>(value.at("file").integer(0, files - 1)),
                    .key = value.at("key").text(),
                    .begin = value.at("begin").integer(0, kMostBytes),
                    .count = value.at("count").integer(1, kMostBytes),
                    .checksums = {}};
  value.at("checksums").each([&](const StoredField& sum) { piece.checksums.push_back(parse_checksum(sum.text())); });
  return piece;
}

std::vector<int64_t> shape_from(const StoredField& value, int64_t most) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  value.each([&](const StoredField& size) {
    shape.push_back(size.integer(0, most));
    if (std::ssize(shape) > kMostDimensions || __builtin_mul_overflow(count, shape.back(), &count) || count > most)
      value.refuse(fmt::format("at most {} sizes and {} elements", kMostDimensions, most));
  });
  return shape;
}

StoredTensor tensor_from(const StoredField& value, int64_t files) {
  const DType dtype = parse_dtype(value.at("dtype").text());
  StoredTensor tensor{{value.at("name").text(), shape_from(value.at("shape"), kMostBytes / size_of(dtype)), dtype}, {}};
  value.at("pieces").each([&](const StoredField& piece) { tensor.pieces.push_back(piece_from(piece, files)); });
  return tensor;
}

// What the checksum cannot promise: that the writer was right.
void check_references(Manifest& manifest) {
  check_tensors(manifest.tensors);
  for (const StoredTensor& tensor : manifest.tensors)
    for (const StoredPiece& piece : tensor.pieces)
      if (std::ssize(piece.checksums) != chunk_count(piece.count * size_of(tensor.info.dtype)))
        damaged("a piece of '{}' has {} checksums", tensor.info.name, piece.checksums.size());
  for (const StoredFile& file : manifest.files)
    if (file.name.empty() || file.name == ".." || fs::path(file.name).filename() != file.name)
      damaged("the file name '{}' leads out of the folder", file.name);
}

// A number where the format or the version is expected is that of another version of this program, whose manifests may
// look otherwise in all the rest.
void check_version(const json& root) {
  const json format = root.is_object() ? root.value("format", json()) : json();
  const json version = format == kFormat ? root.value("version", json()) : format;
  if (!version.is_number_integer()) damaged("it is not a manifest of a checkpoint");
  if (format != kFormat || version != kVersion)
    throw OtherVersion(fmt::format(
        "it was written by another version of Partita (format {}; this one reads {}): use that version, or export the "
        "model with it",
        version.dump(), kVersion));
}

Manifest manifest_from(json root) {
  check_version(root);
  const uint64_t expected = parse_checksum(StoredField(root, "").at("checksum").text());
  root.erase("checksum");
  if (checksum(root.dump()) != expected) damaged("its checksum does not match: it was changed after it was written");
  const StoredField fields(root, "");
  Manifest manifest{.step = fields.at("step").integer(0, kMostSteps),
                    .ranks = static_cast<int>(fields.at("ranks").integer(1, kMostRanks)),
                    .scalars = fields.at("scalars").object(),
                    .files = {},
                    .tensors = {}};
  fields.at("files").each([&](const StoredField& file) {
    manifest.files.push_back({file.at("name").text(), file.at("bytes").integer(0, kMostBytes)});
  });
  if (std::ssize(manifest.files) != manifest.ranks)
    damaged("it names {} files of {} ranks: each writes one", manifest.files.size(), manifest.ranks);
  fields.at("tensors").each(
      [&](const StoredField& tensor) { manifest.tensors.push_back(tensor_from(tensor, std::ssize(manifest.files))); });
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
    if (!names.insert(name).second) damaged("the tensor '{}' occurs twice", name);
    const int64_t count = tensor.info.count();
    std::ranges::sort(tensor.pieces, {}, &StoredPiece::begin);
    int64_t end = 0;
    for (const StoredPiece& piece : tensor.pieces) {
      if (piece.begin < 0 || piece.count <= 0 || piece.count > count - piece.begin)
        damaged("{} elements from {} of '{}', which has {}", piece.count, piece.begin, name, count);
      if (piece.begin < end)
        damaged("elements [{}, {}) of '{}' are stored twice", piece.begin, std::min(end, piece.begin + piece.count),
                name);
      if (piece.begin > end) damaged("elements [{}, {}) of '{}' are stored by no rank", end, piece.begin, name);
      end = piece.begin + piece.count;
    }
    if (end < count) damaged("elements [{}, {}) of '{}' are stored by no rank", end, count, name);
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
  json root;
  try {
    root = parse_json(text, path.string());
  } catch (const Error& error) {
    damaged("{}", error.what());
  }
  try {
    return manifest_from(std::move(root));
  } catch (const OtherVersion& error) {
    fail("{} cannot be used: {}", path.string(), error.what());
  } catch (const Error& error) {
    damaged("{} cannot be used: {}", path.string(), error.what());
  }
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) fail("cannot read {}: {}", path.string(), error.message());
  if (!fs::is_regular_file(status)) damaged("{} is not a checkpoint: it holds no {}", folder.string(), kManifestName);
  Manifest manifest = parse_manifest(read_file(path), path);
  if (const auto step = parse_step_folder_name(folder.filename().string()); step && *step != manifest.step)
    damaged("{} holds a checkpoint of step {}: it was renamed or changed", folder.string(), manifest.step);
  for (const StoredFile& file : manifest.files) {
    const auto bytes = fs::file_size(folder / file.name, error);
    if (error == std::errc::no_such_file_or_directory)
      damaged("{} is missing from the checkpoint {}", file.name, folder.string());
    if (error) fail("cannot read {}: {}", (folder / file.name).string(), error.message());
    if (std::cmp_not_equal(bytes, file.bytes))
      damaged("{} is damaged: it has {} bytes instead of {}", (folder / file.name).string(), bytes, file.bytes);
  }
  return manifest;
}

}  // namespace partita
