// Loading: check everything, agree with all ranks, copy.
#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/reshard.h"
#include "partita/checkpoint/stored_files.h"
#include "partita/checkpoint/tiling.h"

namespace partita {
using namespace internal;
namespace {

namespace fs = std::filesystem;

// A run of stored elements, and where it goes.
struct ElementCopy {
  const Piece* to;
  int64_t first;  // element of the piece
  std::span<const std::byte> from;
  DType stored, wanted;

  void operator()() const {
    const int64_t offset = first * size_of(wanted);
    if (to->data != nullptr)
      convert_elements(stored, from, wanted, to->data + offset);
    else if (stored == wanted)
      to->elsewhere->write(offset, from);
    else
      write_converted(offset);
  }

 private:
  // In parts, so that memory use does not grow with the run.
  void write_converted(int64_t offset) const {
    const auto item = static_cast<size_t>(size_of(stored)), part = static_cast<size_t>(kChunkBytes) / sizeof(float);
    std::vector<std::byte> converted;
    for (std::span<const std::byte> rest = from; !rest.empty();) {
      const std::span<const std::byte> next = rest.first(std::min(rest.size(), part * item));
      converted.resize(next.size() / item * static_cast<size_t>(size_of(wanted)));
      convert_elements(stored, next, wanted, converted.data());
      to->elsewhere->write(offset, converted);
      offset += std::ssize(converted);
      rest = rest.subspan(next.size());
    }
  }
};

void check_same_model(const fs::path& folder, const Manifest& manifest, const CheckpointContents& wanted,
                      const LoadOptions& options) {
  const std::string differences = describe_differences(manifest.tensors, wanted.tensors, options.ignore);
  if (!differences.empty())
    fail("{} is a checkpoint of another model or optimizer: {}: load it with the configuration it was trained with",
         folder.string(), differences);
}

// Error: a value that is finite in the checkpoint is not in the dtype that is wanted.
void check_range(const fs::path& folder, const TensorInfo& stored, std::span<const std::byte> elements, DType wanted) {
  const auto index = find_overflow(stored.dtype, elements, wanted);
  if (!index) return;
  const auto item = static_cast<size_t>(size_of(stored.dtype));
  float value = 0;
  to_fp32(element_type(stored.dtype), elements.data() + *index * item, 1, {&value, 1});
  fail("'{}' in {} holds {} in {}, which is beyond the range of {}: load it in {}", stored.name, folder.string(), value,
       name_of(stored.dtype), name_of(wanted), name_of(stored.dtype));
}

// Checks what this rank will read, including checksums, and lists the copies to make.
std::vector<ElementCopy> prepare(const fs::path& folder, const Manifest& manifest, StoredFiles& files,
                                 const CheckpointContents& wanted) {
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : manifest.tensors) stored.emplace(tensor.info.name, &tensor);

  std::vector<ElementCopy> copies;
  for (const Piece& piece : wanted.pieces) {
    PARTITA_CHECK(piece.tensor >= 0 && piece.tensor < std::ssize(wanted.tensors), "tensor {}", piece.tensor);
    const TensorInfo& info = wanted.tensors[static_cast<size_t>(piece.tensor)];
    PARTITA_CHECK(contains(whole_box(info.shape), piece.box), "{} of '{}', whose shape is {}",
                  box_text(info, piece.box), info.name, shape_text(info.shape));
    const StoredTensor& source = *stored.at(info.name);
    files.read(source, piece.box, [&](int64_t to, std::span<const std::byte> elements) {
      check_range(folder, source.info, elements, info.dtype);
      copies.push_back({&piece, to, elements, source.info.dtype, info.dtype});
    });
  }
  return copies;
}

}  // namespace

nlohmann::json load_checkpoint(const fs::path& folder, const CheckpointContents& wanted, Peers& peers,
                               const LoadOptions& options) {
  Manifest manifest;
  std::optional<StoredFiles> files;
  std::vector<ElementCopy> copies;
  const std::vector<std::string> read = agree(peers, [&] {
    manifest = read_manifest(folder);
    check_same_model(folder, manifest, wanted, options);
    files.emplace(folder, manifest);
    copies = prepare(folder, manifest, *files, wanted);
    return checksum_text(manifest.checksum);
  });
  for (size_t rank = 1; rank < read.size(); ++rank)
    if (read[rank] != read[0])
      fail("{} is not the same checkpoint on ranks 0 and {}: it must lie in a folder that all ranks share",
           folder.string(), rank);
  if (peers.rank() == 0)
    for (const std::string& conversion : describe_conversions(manifest.tensors, wanted.tensors))
      log::info("the checkpoint was saved in another precision: {}", conversion);
  for (const ElementCopy& copy : copies) copy();
  return manifest.scalars;
}

nlohmann::json read_scalars(const fs::path& folder) { return read_manifest(folder).scalars; }

}  // namespace partita
