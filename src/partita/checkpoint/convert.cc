#include "partita/checkpoint/convert.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/new_folder.h"
#include "partita/checkpoint/safetensors.h"
#include "partita/checkpoint/stored_files.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeights = "model/", kUntrained = "untrained/";

// "layers.0.mlp.up.weight" of "adamw.m/layers.0.mlp.up.weight".
std::string_view parameter_of(std::string_view name) { return name.substr(name.find('/') + 1); }

bool is_optimizer_state(std::string_view name) {
  return name.find('/') != std::string_view::npos && !name.starts_with(kWeights) && !name.starts_with(kUntrained);
}

// The tensors to be written, without pieces.
std::vector<StoredTensor> plan_tensors(const Manifest& from, const ConvertOptions& options) {
  std::set<std::string_view> trained;
  for (const StoredTensor& tensor : from.tensors)
    if (is_optimizer_state(tensor.info.name)) trained.insert(parameter_of(tensor.info.name));
  std::vector<StoredTensor> tensors;
  for (const StoredTensor& tensor : from.tensors) {
    TensorInfo info = tensor.info;
    const bool state = is_optimizer_state(info.name);
    if (state && options.weights_only) continue;
    const bool weight =
        info.name.starts_with(kWeights) && (trained.empty() || trained.contains(parameter_of(info.name)));
    if (options.states && (state || weight) && convertible(info.dtype, *options.states)) info.dtype = *options.states;
    tensors.push_back({std::move(info), {}});
  }
  return tensors;
}

// Where in a tensor the file begins that starts `bytes` after the tensor does, in elements.
int64_t cut_at(const TensorInfo& info, int64_t bytes, int files) {
  const Box whole = whole_box(info.shape);
  const int64_t element = std::clamp<int64_t>(bytes / size_of(info.dtype), 0, whole.count());
  return whole.rows < files || element == whole.count() ? element : element / whole.columns * whole.columns;
}

// The entries of each file, in the order of the tensors and of their pieces.
std::vector<std::vector<SafetensorsEntry>> entries_of(const Manifest& manifest) {
  std::vector<std::vector<SafetensorsEntry>> files(static_cast<size_t>(manifest.ranks));
  for (const StoredTensor& tensor : manifest.tensors)
    for (const StoredPiece& piece : tensor.pieces)
      files[static_cast<size_t>(piece.file)].push_back(
          {piece.key, element_type(tensor.info.dtype), piece_shape(tensor.info, piece.boxes[0])});
  return files;
}

// Copies tensors from one checkpoint to the files of another.
class Converter {
 public:
  Converter(const fs::path& from, const Manifest& manifest) : folder_(from), files_(from, manifest) {
    for (const StoredTensor& tensor : manifest.tensors) stored_[tensor.info.name] = &tensor;
  }

  // Writes a piece of a tensor, and sets its checksums.
  void write(const TensorInfo& info, StoredPiece& piece, SafetensorsWriter& out) {
    const StoredTensor& source = *stored_.at(info.name);
    const int64_t item = size_of(info.dtype), stored_item = size_of(source.info.dtype);
    const int64_t most = kChunkBytes / item;
    for (int64_t begin = 0, chunk = 0; begin < piece.count(); begin += most, ++chunk) {
      const int64_t count = std::min(most, piece.count() - begin);
      in_.resize(static_cast<size_t>(count * stored_item));
      out_.resize(static_cast<size_t>(count * item));
      int64_t done = 0;
      for (const Box& box : boxes_of_run(piece.boxes[0], begin, count)) {
        const int64_t bytes = box.count() * stored_item;
        files_.read(source, box, std::span(in_).subspan(static_cast<size_t>(done), static_cast<size_t>(bytes)));
        done += bytes;
      }
      if (find_overflow(source.info.dtype, in_, info.dtype))
        fail("'{}' in {} has values beyond the range of {}: keep it in {}", info.name, folder_.string(),
             name_of(info.dtype), name_of(source.info.dtype));
      convert_elements(source.info.dtype, in_, info.dtype, out_.data());
      piece.checksums[static_cast<size_t>(chunk)] = checksum(out_);
      out.write(out_);
    }
  }

 private:
  fs::path folder_;
  StoredFiles files_;
  std::map<std::string_view, const StoredTensor*> stored_;
  std::vector<std::byte> in_, out_;
};

}  // namespace

Manifest plan_conversion(const Manifest& from, const ConvertOptions& options) {
  const int files = options.ranks > 0 ? options.ranks : from.ranks;
  Manifest plan{.step = from.step, .ranks = files, .scalars = from.scalars};
  plan.tensors = plan_tensors(from, options);
  int64_t total = 0;
  for (const StoredTensor& tensor : plan.tensors) total += tensor.info.count() * size_of(tensor.info.dtype);
  // The first byte of each file; those of all tensors count from 0.
  const auto begin_of = [&](int file) { return total / files * file + std::min<int64_t>(file, total % files); };
  int64_t before = 0;  // bytes of the tensors before this one
  int file = 0;        // the one that holds the tensor's next element
  for (StoredTensor& tensor : plan.tensors) {
    const TensorInfo& info = tensor.info;
    const int64_t bytes = info.count() * size_of(info.dtype);
    int64_t begin = 0;
    while (begin < info.count()) {
      const int64_t end = file + 1 < files ? cut_at(info, begin_of(file + 1) - before, files) : info.count();
      if (end > begin)
        for (const Box& box : boxes_of_run(whole_box(info.shape), begin, end - begin))
          tensor.pieces.push_back(
              {file,
               piece_key(info, box),
               {box},
               std::vector<uint64_t>(static_cast<size_t>(chunk_count(box.count() * size_of(info.dtype))))});
      begin = std::max(begin, end);
      if (begin < info.count()) ++file;
    }
    before += bytes;
  }
  const auto entries = entries_of(plan);
  std::vector<int64_t> sizes;
  for (const auto& list : entries) sizes.push_back(std::ssize(make_safetensors_header(list)));
  for (const StoredTensor& tensor : plan.tensors)
    for (const StoredPiece& piece : tensor.pieces)
      sizes[static_cast<size_t>(piece.file)] += piece.count() * size_of(tensor.info.dtype);
  for (int f = 0; f < files; ++f) plan.files.push_back({rank_file_name(f), sizes[static_cast<size_t>(f)]});
  return plan;
}

void convert_checkpoint(const fs::path& from, const fs::path& to, const ConvertOptions& options) {
  const Manifest source = read_manifest(from);
  const fs::path name = to.has_filename() ? to.filename() : to.parent_path().filename();
  if (const auto step = parse_step_folder_name(name.string()); step && *step != source.step)
    fail("{} is the name of step {}, and {} is of step {}: choose the name {} or one of another form", to.string(),
         *step, from.string(), source.step, step_folder_name(source.step));
  Manifest plan = plan_conversion(source, options);
  int64_t bytes = std::ssize(manifest_text(plan));
  for (const StoredFile& file : plan.files) bytes += file.bytes;
  NewFolder folder(to);
  require_free_bytes(folder.path(), bytes);
  Converter converter(from, source);
  const auto entries = entries_of(plan);
  for (int f = 0; f < plan.ranks; ++f) {
    SafetensorsWriter out(folder.path() / plan.files[static_cast<size_t>(f)].name, entries[static_cast<size_t>(f)]);
    for (StoredTensor& tensor : plan.tensors)
      for (StoredPiece& piece : tensor.pieces)
        if (piece.file == f) converter.write(tensor.info, piece, out);
    out.commit();
  }
  write_file(folder.path() / kManifestName, manifest_text(plan));
  folder.publish();
}

}  // namespace partita::internal
