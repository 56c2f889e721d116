#include "partita/data/index_cache.h"

#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"

namespace partita {
using namespace internal;
namespace fs = std::filesystem;
namespace {

// File layout; all numbers are u64, little-endian:
//   magic | checksum of the rest | bytes of description | number of arrays | bytes of each | description | arrays
// Description and arrays are zero-padded to multiples of 8.
constexpr std::string_view kMagic = "PARTITA ORDER 1\n";
constexpr size_t kChecked = kMagic.size() + sizeof(uint64_t);

constexpr size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// The parts of the file after the checksum.
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

// Never replaces an existing file: another process may have it mapped.
void write(const fs::path& path, const std::string& description, const SharedArrays& arrays) {
  std::vector<uint64_t> numbers = {description.size(), arrays.arrays.size()};
  for (const auto array : arrays.arrays) numbers.push_back(array.size());
  const auto pieces = pieces_of(numbers, description, arrays);
  const uint64_t checksum = checksum_of(pieces);
  AtomicFile file(path);
  file.write(kMagic);
  file.write(std::as_bytes(std::span(&checksum, 1)));
  for (const auto piece : pieces) file.write(piece);
  file.sync();
  (void)file.publish_new();
}

struct Found {
  std::optional<SharedArrays> arrays;  // empty: the file does not exist, is damaged, or holds something else
  std::string problem;                 // the reason, if the file exists
};

Found map(const fs::path& path, std::string_view description, size_t count) try {
  if (!fs::exists(path)) return {};
  const auto file = std::make_shared<const MappedFile>(path, MappedFile::Access::sequential);
  const auto damaged = [&path](const char* what) { return Found{{}, fmt::format("{} {}", path.string(), what)}; };
  std::span<const std::byte> rest = file->bytes();
  if (!file->text().starts_with(kMagic) || rest.size() < kChecked + 2 * sizeof(uint64_t))
    return damaged("is not a sample order of this program");
  uint64_t checksum = 0;
  std::memcpy(&checksum, rest.data() + kMagic.size(), sizeof checksum);
  rest = rest.subspan(kChecked);
  if (XXH3_64bits(rest.data(), rest.size()) != checksum) return damaged("is damaged");
  const auto number = [&rest](size_t i) {
    uint64_t value = 0;
    std::memcpy(&value, rest.data() + i * sizeof value, sizeof value);
    return static_cast<size_t>(value);
  };
  // The checksum matches: these numbers were written as they are, but perhaps by another version.
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
  return {std::move(found), {}};
} catch (const Error& error) {
  return {{}, error.what()};
}

// Identifies a file by number and time: the number alone may be reused soon after a removal.
struct Identity {
  explicit Identity(const fs::path& path) { there = ::stat(path.c_str(), &info) == 0; }
  bool operator==(const Identity& other) const {
    return there && other.there && info.st_dev == other.info.st_dev && info.st_ino == other.info.st_ino &&
           info.st_mtim.tv_sec == other.info.st_mtim.tv_sec && info.st_mtim.tv_nsec == other.info.st_mtim.tv_nsec;
  }
  struct stat info {};
  bool there = false;
};

// Like map, but removes an unusable file. If another machine, which may not see the lock, has put a new file there in
// the meantime, that one stays.
std::optional<SharedArrays> map_or_remove(const fs::path& path, std::string_view description, size_t count) {
  const Identity before(path);
  Found found = map(path, description, count);
  if (found.problem.empty()) return std::move(found.arrays);
  log::warn("{}: making it again", found.problem);
  std::error_code ignored;
  if (Identity(path) == before) fs::remove(path, ignored);
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
  fs::path lock_path = path;
  lock_path += ".lock";
  // An existing file is complete: all ranks may read it without the lock.
  if (auto found = map(path, description, count).arrays) {
    std::error_code ignored;
    if (fs::exists(lock_path, ignored)) {  // left by a killed process, or by one that has just finished
      (void)remove_abandoned(path);
      remove_abandoned_lock(lock_path);
    }
    return *std::move(found);
  }
  std::optional<FileLock> lock(lock_path);
  if (lock->held()) {
    if (auto found = map_or_remove(path, description, count)) return *std::move(found);
    (void)remove_abandoned(path);
    // The previous holder could not write its arrays, or was killed: release the lock, so that no one waits twice.
    if (lock->waited()) lock.reset();
  }
  SharedArrays built = build();
  PARTITA_CHECK(built.arrays.size() == count, "{} arrays built, {} expected", built.arrays.size(), count);
  try {
    if (error) fail("{}", error.message());
    write(path, description, built);
  } catch (const Error& problem) {
    if (warns_) warn_once(folder_, problem.what());
    return built;
  }
  auto mapped = map(path, description, count).arrays;
  return mapped ? *std::move(mapped) : built;
}

}  // namespace partita
