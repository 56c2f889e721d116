#include "partita/interop/zip_archive.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the format is little-endian and is read in place");

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr int64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr int64_t kLongestComment = 0xFFFF;
constexpr uint32_t kSee64 = 0xFFFFFFFF;  // in a 32-bit field: the value is in the 64-bit extension
constexpr uint16_t kExtra64 = 1;         // id of the extension among the extra fields

struct Directory {
  int64_t begin = 0, end = 0, entries = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> file, const fs::path& path) : file_(file), path_(path) {}

  std::vector<ZipEntry> parse() const {
    const Directory directory = find_directory();
    std::vector<ZipEntry> entries;
    std::set<std::string, std::less<>> names;
    int64_t at = directory.begin;
    for (int64_t i = 0; i < directory.entries; ++i) {
      entries.push_back(parse_entry(at, directory));
      if (!names.insert(entries.back().name).second) refuse("the name '{}' occurs twice", entries.back().name);
    }
    if (at != directory.end)
      refuse("its directory of {} entries ends at byte {} instead of {}", directory.entries, at, directory.end);
    std::ranges::sort(entries, {}, [](const ZipEntry& e) { return std::pair(e.begin, e.end); });
    for (size_t i = 1; i < entries.size(); ++i)
      if (entries[i].begin < entries[i - 1].end)
        refuse("'{}' begins at byte {}, inside '{}'", entries[i].name, entries[i].begin, entries[i - 1].name);
    return entries;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{} is not a sound zip archive: {}: fetch or write it again", path_.string(),
         fmt::format(format, std::forward<Args>(args)...));
  }

  // Reads a number from the file; the range has been checked.
  template <class T>
  T get(int64_t at) const {
    T value{};
    std::memcpy(&value, file_.data() + at, sizeof value);
    return value;
  }
  // Error unless [at, at + count) is within [0, end).
  void require(int64_t at, int64_t count, int64_t end, std::string_view what) const {
    if (at < 0 || count < 0 || at > end || count > end - at)
      refuse("{} needs {} bytes from byte {} on, which ends at byte {} (cut short?)", what, count, at, end);
  }
  // Converts a 64-bit number to a file offset. Error: beyond the end of the file.
  int64_t place(uint64_t value, std::string_view what) const {
    if (value > static_cast<uint64_t>(file_.size()))
      refuse("{} is {}, the file has {} bytes", what, value, file_.size());
    return static_cast<int64_t>(value);
  }

  // The record is at the very end, optionally followed by a comment.
  int64_t find_end() const {
    const int64_t size = std::ssize(file_);
    for (int64_t at = size - kEndBytes; at >= std::max<int64_t>(0, size - kEndBytes - kLongestComment); --at)
      if (get<uint32_t>(at) == kEnd && at + kEndBytes + get<uint16_t>(at + 20) == size) return at;
    refuse("it does not end as one (cut short?)");
  }

  Directory find_directory() const {
    const int64_t end = find_end();
    Directory directory;
    directory.entries = get<uint16_t>(end + 10);
    uint64_t bytes = get<uint32_t>(end + 12), begin = get<uint32_t>(end + 16);
    int64_t limit = end;
    if (const int64_t locator = end - kLocatorBytes; locator >= 0 && get<uint32_t>(locator) == kLocator64) {
      const int64_t end64 = place(get<uint64_t>(locator + 8), "the place of its 64-bit record");
      require(end64, kEnd64Bytes, locator, "its 64-bit record");
      if (get<uint32_t>(end64) != kEnd64) refuse("it has no 64-bit record at byte {}", end64);
      directory.entries = place(get<uint64_t>(end64 + 32), "the number of entries");
      bytes = get<uint64_t>(end64 + 40);
      begin = get<uint64_t>(end64 + 48);
      limit = end64;
    }
    directory.begin = place(begin, "the place of its directory");
    const int64_t length = place(bytes, "the length of its directory");
    require(directory.begin, length, limit, "its directory");
    directory.end = directory.begin + length;
    if (directory.entries > length / kCentralBytes)
      refuse("a directory of {} bytes cannot hold {} entries", length, directory.entries);
    return directory;
  }

  // Reads the directory entry at `at` and advances past it.
  ZipEntry parse_entry(int64_t& at, const Directory& directory) const {
    require(at, kCentralBytes, directory.end, "an entry of its directory");
    if (get<uint32_t>(at) != kCentral) refuse("it has no entry of its directory at byte {}", at);
    const int64_t name_bytes = get<uint16_t>(at + 28), extra_bytes = get<uint16_t>(at + 30);
    const int64_t comment_bytes = get<uint16_t>(at + 32);
    require(at + kCentralBytes, name_bytes + extra_bytes + comment_bytes, directory.end, "an entry of its directory");
    ZipEntry entry{text(at + kCentralBytes, name_bytes)};
    if (get<uint16_t>(at + 8) & 1) refuse("'{}' is encrypted", entry.name);
    if (const int method = get<uint16_t>(at + 10); method != 0)
      refuse("'{}' is compressed (method {}), tensors are stored as they are", entry.name, method);
    entry.crc = get<uint32_t>(at + 16);
    uint64_t stored = get<uint32_t>(at + 20), whole = get<uint32_t>(at + 24), local = get<uint32_t>(at + 42);
    read_extra64(entry.name, at + kCentralBytes + name_bytes, extra_bytes, {&whole, &stored, &local});
    if (stored != whole) refuse("'{}' has {} bytes and takes {}", entry.name, whole, stored);
    locate(entry, place(local, "the place of an entry"), stored, directory.begin);
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    return entry;
  }

  // The extension holds those of `numbers`, in order, whose 32-bit field is kSee64.
  void read_extra64(const std::string& name, int64_t at, int64_t bytes,
                    std::initializer_list<uint64_t*> numbers) const {
    const bool needed = std::ranges::any_of(numbers, [](const uint64_t* number) { return *number == kSee64; });
    if (!needed) return;
    const int64_t end = at + bytes;
    while (end - at >= 4) {
      const int64_t length = get<uint16_t>(at + 2), field = at + 4;
      require(field, length, end, "an extra field of its directory");
      if (get<uint16_t>(at) == kExtra64) {
        int64_t next = field;
        for (uint64_t* number : numbers) {
          if (*number != kSee64) continue;
          require(next, 8, field + length, "a 64-bit field of its directory");
          *number = get<uint64_t>(next);
          next += 8;
        }
        return;
      }
      at = field + length;
    }
    refuse("'{}' has no 64-bit field", name);
  }

  // The data follows the local header, whose name and extra fields have their own lengths.
  void locate(ZipEntry& entry, int64_t local, uint64_t bytes, int64_t limit) const {
    require(local, kLocalBytes, limit, "the header of '" + entry.name + "'");
    if (get<uint32_t>(local) != kLocal) refuse("'{}' has no header at byte {}", entry.name, local);
    const int64_t name_bytes = get<uint16_t>(local + 26), extra_bytes = get<uint16_t>(local + 28);
    require(local + kLocalBytes, name_bytes + extra_bytes, limit, "the header of '" + entry.name + "'");
    if (text(local + kLocalBytes, name_bytes) != entry.name)
      refuse("the directory's '{}' is another entry at byte {}", entry.name, local);
    entry.begin = local + kLocalBytes + name_bytes + extra_bytes;
    const int64_t length = place(bytes, "the length of '" + entry.name + "'");
    require(entry.begin, length, limit, "'" + entry.name + "'");
    entry.end = entry.begin + length;
  }

  std::string text(int64_t at, int64_t count) const {
    return {reinterpret_cast<const char*>(file_.data()) + at, static_cast<size_t>(count)};
  }

  std::span<const std::byte> file_;
  const fs::path& path_;
};

}  // namespace

bool is_zip(std::span<const std::byte> file) {
  uint32_t signature = 0;
  if (file.size() < sizeof signature) return false;
  std::memcpy(&signature, file.data(), sizeof signature);
  return signature == kLocal;
}

void check_zip_crc(std::span<const std::byte> bytes, uint32_t crc, std::string_view name, const fs::path& path) {
  if (crc == 0) return;
  const uint32_t found = crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  if (found != crc)
    fail("{} is damaged: the checksum of '{}' is {:08x} instead of {:08x}: fetch or write it again", path.string(),
         name, found, crc);
}

std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, const fs::path& path) {
  return Parser(file, path).parse();
}

}  // namespace partita::internal
