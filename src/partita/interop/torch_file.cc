#include "partita/interop/torch_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/foreign_format.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPickle = "data.pkl";

using Entries = std::map<std::string, ZipEntry, std::less<>>;

std::span<const std::byte> bytes_of(std::span<const std::byte> file, const ZipEntry& entry) {
  return file.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
}

// "archive/" of "archive/data.pkl"; the archive's name varies.
std::string find_prefix(const Entries& entries, const fs::path& path) {
  for (const auto& [name, entry] : entries) {
    const size_t slash = name.find('/');
    if (slash != std::string::npos && std::string_view(name).substr(slash + 1) == kPickle)
      return name.substr(0, slash + 1);
  }
  fail("{} is a zip archive without {}: expected a file of torch.save", path.string(), kPickle);
}

void check_byte_order(std::span<const std::byte> file, const Entries& entries, const std::string& prefix,
                      const fs::path& path) {
  const auto found = entries.find(prefix + "byteorder");
  if (found == entries.end()) return;  // older files use the writer's byte order: nearly always little-endian
  const std::span<const std::byte> bytes = bytes_of(file, found->second);
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order != "little") fail("{} is not little-endian: save it again on such a machine", path.string());
}

// Number of elements spanned from first to last; negative if the tensor is invalid or it exceeds 63 bits.
int64_t extent(const PickledTensor& tensor) {
  int64_t last = 0;
  bool empty = false;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const int64_t size = tensor.shape[d], stride = tensor.strides[d];
    if (size < 0 || stride < 0) return -1;
    if (size == 0) empty = true;
    int64_t reach = 0;
    if (size > 0 && (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last)))
      return -1;
  }
  if (empty) return 0;
  return last == INT64_MAX ? -1 : last + 1;
}

// Whether the dense size in bytes is representable; a reader materializes even elements that strides of 0 share.
bool has_possible_size(const PickledTensor& tensor) {
  int64_t bytes = size_of(tensor.type);
  for (int64_t size : tensor.shape)
    if (size > 0 && __builtin_mul_overflow(bytes, size, &bytes)) return false;
  return true;
}

}  // namespace

TorchArchive::TorchArchive(std::span<const std::byte> file, const fs::path& path) : file_(file), path_(path) {
  refuse_lfs_pointer({reinterpret_cast<const char*>(file.data()), file.size()}, path.string(), "a file of torch.save");
  if (!is_zip(file))
    fail(
        "{} is not a zip archive: files of torch before 1.6 are not read: load it with a newer torch and save it "
        "again, as safetensors at best",
        path.string());
  for (ZipEntry& entry : parse_zip(file, path)) {
    std::string name = entry.name;
    entries_.emplace(std::move(name), std::move(entry));
  }
  prefix_ = find_prefix(entries_, path);
  check_byte_order(file, entries_, prefix_, path);
  const ZipEntry& entry = entries_.at(prefix_ + std::string(kPickle));
  check_zip_crc(pickle(), entry.crc, entry.name, path);
}

std::span<const std::byte> TorchArchive::pickle() const {
  return bytes_of(file_, entries_.at(prefix_ + std::string(kPickle)));
}

TorchTensor TorchArchive::locate(PickledTensor t) const {
  const auto refuse = [&](const std::string& what) {
    fail("{}: tensor '{}' {}: fetch or write the file again", path_.string(), t.name, what);
  };
  const auto storage = entries_.find(prefix_ + "data/" + t.storage);
  if (storage == entries_.end()) refuse(fmt::format("is in the storage '{}', which is missing", t.storage));
  const int64_t item = size_of(t.type), bytes = storage->second.end - storage->second.begin;
  if (bytes % item != 0 || bytes / item != t.storage_count)
    refuse(
        fmt::format("is in a storage of {} {} elements, which has {} bytes", t.storage_count, name_of(t.type), bytes));
  const int64_t count = extent(t);
  if (count < 0 || !has_possible_size(t)) refuse("has an impossible shape");
  if (t.offset < 0 || t.offset > t.storage_count || count > t.storage_count - t.offset)
    refuse(fmt::format("takes {} elements from {} on, its storage has {}", count, t.offset, t.storage_count));
  const int64_t begin = storage->second.begin + t.offset * item;
  return {std::move(t.name),    t.type,         std::move(t.shape), std::move(t.strides), begin,
          begin + count * item, storage->second};
}

std::vector<TorchTensor> parse_torch_file(std::span<const std::byte> file, const fs::path& path) {
  const TorchArchive archive(file, path);
  std::vector<TorchTensor> tensors;
  for (PickledTensor& t : unpickle_tensors(archive.pickle(), path)) tensors.push_back(archive.locate(std::move(t)));
  return tensors;
}

TorchTensor parse_torch_tensor(std::span<const std::byte> file, const fs::path& path, std::string name) {
  const TorchArchive archive(file, path);
  PickledTensor tensor = unpickle_tensor(archive.pickle(), path);
  tensor.name = std::move(name);
  return archive.locate(std::move(tensor));
}

}  // namespace partita::internal
