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
#include "partita/checkpoint/tiling.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFormat = "partita checkpoint";
// Version 3: a rank may have two files. Version 1: pieces are runs of elements.
constexpr int kVersion = 3, kTwoFilesVersion = 3, kOldestVersion = 1;

class OtherVersion : public Error {
 public:
  using Error::Error;
};

std::pair<int64_t, int64_t> first_element(const Box& box) { return {box.row, box.column}; }

json to_json(const StoredPiece& piece) {
  json sums = json::array();
  for (uint64_t sum : piece.checksums) sums.push_back(checksum_text(sum));
  PARTITA_CHECK(piece.boxes.size() == 1, "'{}' is {} boxes", piece.key, piece.boxes.size());
  const Box& box = piece.boxes[0];
  return {{"file", piece.file},
          {"key", piece.key},
          {"box", {box.row, box.rows, box.column, box.columns}},
          {"checksums", sums}};
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
constexpr int64_t kMostBytes = int64_t{1} << 60;  // limit for a tensor or file: sums of several stay within 64 bits

Box box_from(const StoredField& value) {
  std::vector<int64_t> numbers;
  value.each([&](const StoredField& number) { numbers.push_back(number.integer(0, kMostBytes)); });
  if (numbers.size() != 4) value.refuse("first row, rows, first column and columns");
  return {.row = numbers[0], .rows = numbers[1], .column = numbers[2], .columns = numbers[3]};
}

// For version 1.
std::vector<Box> run_from(const StoredField& value, const TensorInfo& tensor) {
  const int64_t begin = value.at("begin").integer(0, kMostBytes), count = value.at("count").integer(1, kMostBytes);
  if (count > tensor.count() - begin)
    damaged("{} elements from {} of '{}', which has {}", count, begin, tensor.name, tensor.count());
  return boxes_of_run(whole_box(tensor.shape), begin, count);
}

StoredPiece piece_from(const StoredField& value, const TensorInfo& tensor, int64_t files, int64_t version) {
  StoredPiece piece{.file = static_cast<int>(value.at("file").integer(0, files - 1)),
                    .key = value.at("key").text(),
                    .boxes = {},
                    .checksums = {}};
  if (version == 1)
    piece.boxes = run_from(value, tensor);
  else
    piece.boxes = {box_from(value.at("box"))};
  value.at("checksums").each([&](const StoredField& sum) { piece.checksums.push_back(parse_checksum(sum.text())); });
  return piece;
}

std::vector<int64_t> shape_from(const StoredField& value, int64_t most) {
  std::vector<int64_t> shape;
  int64_t count = 1;  // zero-sized dimensions are skipped: the columns of a tensor without rows must be in range too
  value.each([&](const StoredField& size) {
    shape.push_back(size.integer(0, most));
    const int64_t extent = std::max<int64_t>(1, shape.back());
    if (std::ssize(shape) > kMostDimensions || __builtin_mul_overflow(count, extent, &count) || count > most)
      value.refuse(fmt::format("at most {} sizes and {} elements", kMostDimensions, most));
  });
  return shape;
}

StoredTensor tensor_from(const StoredField& value, int64_t files, int64_t version) {
  const DType dtype = parse_dtype(value.at("dtype").text());
  StoredTensor tensor{{value.at("name").text(), shape_from(value.at("shape"), kMostBytes / size_of(dtype)), dtype}, {}};
  value.at("pieces").each(
      [&](const StoredField& piece) { tensor.pieces.push_back(piece_from(piece, tensor.info, files, version)); });
  return tensor;
}

// Checks what a checksum cannot guarantee: that the writer was correct.
void check_references(Manifest& manifest) {
  check_tensors(manifest.tensors);
  for (const StoredTensor& tensor : manifest.tensors)
    for (const StoredPiece& piece : tensor.pieces)
      if (std::ssize(piece.checksums) != chunk_count(piece.count() * size_of(tensor.info.dtype)))
        damaged("a piece of '{}' has {} checksums", tensor.info.name, piece.checksums.size());
  for (const StoredFile& file : manifest.files)
    if (file.name.empty() || file.name == ".." || fs::path(file.name).filename() != file.name)
      damaged("the file name '{}' leads out of the folder", file.name);
}

// A number in place of the format or version means another version of this program, whose manifests may differ in
// everything else. Returns the version.
int64_t check_version(const json& root) {
  const json format = root.is_object() ? root.value("format", json()) : json();
  const json version = format == kFormat ? root.value("version", json()) : format;
  if (!version.is_number_integer()) damaged("it is not a manifest of a checkpoint");
  if (format != kFormat || version < kOldestVersion || version > kVersion)
    throw OtherVersion(fmt::format(
        "it was written by another version of Partita (format {}; this one reads {} to {}): use that version, or "
        "export the model with it",
        version.dump(), kOldestVersion, kVersion));
  return version.get<int64_t>();
}

Manifest manifest_from(json root) {
  const int64_t version = check_version(root);
  const uint64_t expected = parse_checksum(StoredField(root, "").at("checksum").text());
  root.erase("checksum");
  if (checksum(root.dump()) != expected) damaged("its checksum does not match: it was changed after it was written");
  const StoredField fields(root, "");
  Manifest manifest{.step = fields.at("step").integer(0, kMostSteps),
                    .ranks = static_cast<int>(fields.at("ranks").integer(1, kMostRanks)),
                    .scalars = fields.at("scalars").object(),
                    .files = {},
                    .tensors = {},
                    .checksum = expected};
  fields.at("files").each([&](const StoredField& file) {
    manifest.files.push_back({file.at("name").text(), file.at("bytes").integer(0, kMostBytes)});
  });
  const int64_t files_a_rank = version >= kTwoFilesVersion ? 2 : 1;
  if (std::ssize(manifest.files) < manifest.ranks || std::ssize(manifest.files) > files_a_rank * manifest.ranks)
    damaged("it names {} files of {} ranks: each writes {}", manifest.files.size(), manifest.ranks,
            files_a_rank == 1 ? "one" : "one or two");
  fields.at("tensors").each([&](const StoredField& tensor) {
    manifest.tensors.push_back(tensor_from(tensor, std::ssize(manifest.files), version));
  });
  check_references(manifest);
  return manifest;
}

}  // namespace

std::string piece_key(const TensorInfo& tensor, const Box& box) {
  if (box == whole_box(tensor.shape)) return tensor.name;
  return fmt::format("{}[{}:{},{}:{}]", tensor.name, box.row, box.row + box.rows, box.column, box.column + box.columns);
}

std::vector<int64_t> piece_shape(const TensorInfo& tensor, const Box& box) {
  if (box == whole_box(tensor.shape)) return tensor.shape;
  return {box.rows, box.columns};
}

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }
std::string constant_file_name(int rank) { return fmt::format("{}{:05}.safetensors", kConstantFile, rank); }

StoredPiece& find_piece(StoredTensor& tensor, const Box& box) {
  const auto found = std::ranges::lower_bound(tensor.pieces, first_element(box), {},
                                              [](const StoredPiece& piece) { return first_element(piece.boxes[0]); });
  PARTITA_CHECK(found != tensor.pieces.end() && first_element(found->boxes[0]) == first_element(box),
                "no piece of '{}' at {}", tensor.info.name, box_text(tensor.info, box));
  return *found;
}

void check_tensors(std::vector<StoredTensor>& tensors) {
  std::set<std::string_view> names;
  for (StoredTensor& tensor : tensors) {
    if (!names.insert(tensor.info.name).second) damaged("the tensor '{}' occurs twice", tensor.info.name);
    std::vector<Box> boxes;
    for (const StoredPiece& piece : tensor.pieces) boxes.insert(boxes.end(), piece.boxes.begin(), piece.boxes.end());
    check_tiling(tensor.info, std::move(boxes));
    std::ranges::sort(tensor.pieces, {}, [](const StoredPiece& piece) { return first_element(piece.boxes[0]); });
  }
}

std::string manifest_text(const Manifest& manifest) {
  // Older programs read it, where they can.
  const int64_t version = std::ssize(manifest.files) > manifest.ranks ? kTwoFilesVersion : kTwoFilesVersion - 1;
  json root = {{"format", kFormat},       {"version", version},          {"step", manifest.step},
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

}  // namespace partita::internal
