#include "partita/data/index_cache.h"

#include <fcntl.h>
#include <sys/file.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"

namespace partita {
namespace fs = std::filesystem;
namespace {

// The file, all numbers u64, little-endian:
//   magic | checksum of all that follows | bytes of the description | arrays | bytes of each | description | arrays
// Description and arrays are filled up to multiples of 8 with zeros.
constexpr std::string_view kMagic = "PARTITA ORDER 1\n";
constexpr size_t kChecked = kMagic.size() + sizeof(uint64_t);

constexpr size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// What follows the checksum, in pieces.
std::vector<std::span<const std::byte>> pieces_of(std::span<const uint64_t> numbers, std::string_view description,
                                                  const SharedArrays& arrays) {
  static constexpr std::byte kZeros[8] = {};
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(numbers)};
  const auto add = [&pieces](std::span<const std::byte> bytes) {
    pieces.push_back(bytes);
    pieces.push_back(std::span(kZeros).first(padded(bytes.size()) - bytes.size()));
  };
  add(bytes_of(description));
  for (const auto array : arrays.arrays) add(array);
  return pieces;
}

uint64_t checksum_of(std::span<const std::span<const std::byte>> pieces) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto piece : pieces) XXH3_64bits_update(&state, piece.data(), piece.size());
  return XXH3_64bits_digest(&state);
}

void write(const fs::path& path, const std::string& description, const SharedArrays& arrays) {
  std::vector<uint64_t> numbers = {description.size(), arrays.arrays.size()};
  for (const auto array : arrays.arrays) numbers.push_back(array.size());
  const auto pieces = pieces_of(numbers, description, arrays);
  const uint64_t checksum = checksum_of(pieces);
  AtomicFile file(path);
  file.write(kMagic);
  file.write(std::as_bytes(std::span(&checksum, 1)));
  for (const auto piece : pieces) file.write(piece);
  file.commit();
}

// Nothing if the file is not there, damaged, or of something else.
std::optional<SharedArrays> map(const fs::path& path, std::string_view description, size_t count) try {
  if (!fs::exists(path)) return std::nullopt;
  const auto file = std::make_shared<const MappedFile>(path, MappedFile::Access::sequential);
  const auto damaged = [&path](const char* what) {
    log::warn("{} {}: it is made anew", path.string(), what);
    return std::nullopt;
  };
  std::span<const std::byte> rest = file->bytes();
  if (!file->text().starts_with(kMagic) || rest.size() < kChecked + 2 * sizeof(uint64_t))
    return damaged("is no sample order of this program");
  uint64_t checksum = 0;
  std::memcpy(&checksum, rest.data() + kMagic.size(), sizeof checksum);
  rest = rest.subspan(kChecked);
  if (XXH3_64bits(rest.data(), rest.size()) != checksum) return damaged("is damaged");
  const auto number = [&rest](size_t i) {
    uint64_t value = 0;
    std::memcpy(&value, rest.data() + i * sizeof value, sizeof value);
    return static_cast<size_t>(value);
  };
  // The checksum agrees: what stands there was written, perhaps by another version.
  if (number(1) != count || number(0) != description.size()) return damaged("belongs to something else");
  size_t at = (2 + count) * sizeof(uint64_t), end = at + padded(description.size());
  if (rest.size() < end) return damaged("is damaged");
  for (size_t i = 0; i < count; ++i) {
    if (number(2 + i) > rest.size()) return damaged("is damaged");
    end += padded(number(2 + i));
  }
  if (end != rest.size()) return damaged("is damaged");
  if (std::memcmp(rest.data() + at, description.data(), description.size()) != 0)
    return damaged("belongs to something else");
  at += padded(description.size());
  SharedArrays found{file, {}};
  for (size_t i = 0; i < count; ++i) {
    found.arrays.push_back(rest.subspan(at, number(2 + i)));
    at += padded(number(2 + i));
  }
  return found;
} catch (const Error& error) {
  log::warn("{}: it is made anew", error.what());
  return std::nullopt;
}

void warn_once(const fs::path& folder, const char* why) {
  static std::atomic<bool> warned = false;
  if (warned.exchange(true)) return;
  log::warn("sample orders cannot be kept in {}, each rank holds its own ({}): data.cache names another folder",
            folder.string(), why);
}

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

fs::path IndexCache::file_of(const std::string& name, const std::string& description) const {
  return folder_ / fmt::format("{}-{}.order", name, content_hash(bytes_of(description)));
}

SharedArrays IndexCache::get(const std::string& name, const std::string& description, size_t count,
                             const Build& build) const {
  if (folder_.empty()) return build();
  const fs::path path = file_of(name, description);
  std::error_code error;
  fs::create_directories(folder_, error);
  const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) {
    while (::flock(folder.get(), LOCK_EX) != 0 && errno == EINTR) continue;  // other errors: no locks there
    if (auto found = map(path, description, count)) return *std::move(found);
  }
  SharedArrays built = build();
  PARTITA_CHECK(built.arrays.size() == count, "{} arrays built, {} expected", built.arrays.size(), count);
  try {
    if (!folder) fail("{}", error ? error.message() : std::strerror(ENOENT));
    write(path, description, built);
  } catch (const Error& problem) {
    if (warns_) warn_once(folder_, problem.what());
    return built;
  }
  auto mapped = map(path, description, count);
  return mapped ? *std::move(mapped) : built;
}

}  // namespace partita
