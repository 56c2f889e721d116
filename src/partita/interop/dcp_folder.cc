#include "partita/interop/dcp_folder.h"

#include <array>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/foreign_format.h"
#include "partita/checkpoint/reshard.h"
#include "partita/interop/torch_storages.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

struct Dtype {
  std::string_view name;
  ElementType type;
};
constexpr std::array kDtypes = {Dtype{"torch.float32", ElementType::f32},   Dtype{"torch.float16", ElementType::f16},
                                Dtype{"torch.bfloat16", ElementType::bf16}, Dtype{"torch.float64", ElementType::f64},
                                Dtype{"torch.int64", ElementType::i64},     Dtype{"torch.int32", ElementType::i32},
                                Dtype{"torch.int16", ElementType::i16},     Dtype{"torch.int8", ElementType::i8},
                                Dtype{"torch.uint8", ElementType::u8},      Dtype{"torch.bool", ElementType::boolean}};

}  // namespace

class DcpFolder::Files {
 public:
  explicit Files(fs::path folder) : folder_(std::move(folder)) {}

  // Error: missing, or it ends before `place` does.
  void require(const DcpPlace& place) {
    int64_t& size = sizes_[place.file];
    std::error_code error;
    if (size == 0) {
      if (!fs::is_regular_file(folder_ / place.file, error))
        fail("{} lists {}, which is missing: the checkpoint is not complete, copy all of its files",
             (folder_ / kDcpMetadata).string(), place.file);
      size = static_cast<int64_t>(fs::file_size(folder_ / place.file, error));
      if (error) fail("cannot read {}: {}", (folder_ / place.file).string(), error.message());
    }
    if (place.offset > size || place.length > size - place.offset)
      fail("{} has {} bytes, and {} lists bytes {} to {} of it (cut short?): copy it again",
           (folder_ / place.file).string(), size, kDcpMetadata, place.offset, place.offset + place.length);
  }
  std::span<const std::byte> bytes(const DcpPlace& place) {
    auto found = files_.find(place.file);
    if (found == files_.end())
      found = files_.emplace(place.file, MappedFile(folder_ / place.file, MappedFile::Access::sequential)).first;
    const std::span<const std::byte> file = found->second.bytes();
    if (place.offset + place.length > std::ssize(file))
      fail("{} was cut short while it was open", path(place).string());
    return file.subspan(static_cast<size_t>(place.offset), static_cast<size_t>(place.length));
  }
  [[nodiscard]] fs::path path(const DcpPlace& place) const { return folder_ / place.file; }

 private:
  fs::path folder_;
  std::map<std::string, int64_t> sizes_;
  std::map<std::string, MappedFile> files_;
};

DcpFolder::DcpFolder(fs::path path) : path_(std::move(path)), files_(std::make_shared<Files>(path_)) {
  const MappedFile file(path_ / kDcpMetadata, MappedFile::Access::sequential);
  refuse_lfs_pointer(file.text(), file.path().string(), "the metadata of torch.distributed.checkpoint");
  metadata_ = parse_dcp_metadata(file.bytes(), file.path());
  for (const auto& [name, tensor] : metadata_.tensors)
    for (const DcpChunk& chunk : tensor.chunks) files_->require(chunk.place);
  for (const auto& [name, place] : metadata_.objects) files_->require(place);
}

ChunkedTensors DcpFolder::tensors() const {
  ChunkedTensors tensors;
  for (const auto& [name, stored] : metadata_.tensors) {
    ChunkedTensor& tensor = tensors[name];
    tensor.shape = stored.shape;
    tensor.type_name = stored.dtype;
    const auto found = std::ranges::find(kDtypes, stored.dtype, &Dtype::name);
    if (found != kDtypes.end()) tensor.type = found->type;
    for (const DcpChunk& chunk : stored.chunks) {
      const auto open = [files = files_, place = chunk.place, sizes = chunk.sizes, type = tensor.type, name] {
        const std::span<const std::byte> bytes = files->bytes(place);
        const fs::path path = files->path(place);
        MappedTensor elements = TorchStorages(bytes, path).tensor(parse_torch_tensor(bytes, path, name));
        if (elements.shape != sizes || elements.type != type)
          fail("{}: the part of '{}' at byte {} is {} {}, and {} in {}: copy or write the checkpoint again",
               path.string(), name, place.offset, shape_text(elements.shape), name_of(elements.type), shape_text(sizes),
               kDcpMetadata);
        return elements;
      };
      tensor.chunks.push_back({chunk.offsets, chunk.sizes, open});
    }
  }
  return tensors;
}

std::span<const std::byte> DcpFolder::object(std::string_view name) const {
  const auto found = metadata_.objects.find(name);
  if (found == metadata_.objects.end()) return {};
  return files_->bytes(found->second);
}

}  // namespace partita::internal
