#include "partita/base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "partita/base/direct_writer.h"
#include "partita/base/mapping_guard.h"
#include "partita/base/removal.h"

namespace partita::internal {
namespace fs = std::filesystem;
namespace {

// Below, the thread and the buffers take longer than the page cache.
constexpr int64_t kDirectFrom = int64_t{32} << 20;

FileDescriptor open_for_reading(const fs::path& path, int flags = 0) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!file) fail("cannot read {}: {}", path.string(), io_reason(errno));
  return file;
}

int64_t size_of_regular_file(const FileDescriptor& file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail("cannot read {}: {}", path.string(), io_reason(errno));
  if (S_ISDIR(info.st_mode)) fail("cannot read {}: it is a directory, a file was expected", path.string());
  return info.st_size;
}

void require_regular(const FileDescriptor& file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail("cannot read {}: {}", path.string(), io_reason(errno));
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
    fail("cannot read {}: it is a pipe, a socket or a device, a regular file was expected", path.string());
}

fs::path directory_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Whether the path still refers to this regular file: it has not been removed or replaced since it was opened.
bool is_still_at(const FileDescriptor& file, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && S_ISREG(named.st_mode) &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Whether no other machine writes to the file system, so that the kernel knows every lock.
bool is_of_this_machine(const fs::path& folder) {
  constexpr uint32_t kF2fs = 0xF2F52010, kXfs = 0x58465342, kZfs = 0x2FC12FC1, kBcachefs = 0xCA451A4E;
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) return false;
  switch (static_cast<uint32_t>(info.f_type)) {
    case EXT4_SUPER_MAGIC:  // also ext2 and ext3
    case BTRFS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case kF2fs:
    case kXfs:
    case kZfs:
    case kBcachefs:
      return true;
    default:
      return false;
  }
}

// Removes files in the folder whose names match `is_temporary` and whose writers are gone.
template <class IsTemporary>
int remove_abandoned(const fs::path& folder, const IsTemporary& is_temporary) {
  if (!is_of_this_machine(folder)) return 0;
  int removed = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_temporary(entry->path().filename().string())) continue;
    // Opening must not block (pipes) or follow links.
    const FileDescriptor file(::open(entry->path().c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 || !is_still_at(file, entry->path())) continue;
    if (::unlink(entry->path().c_str()) == 0) ++removed;
  }
  return removed;
}

// "1234-0.tmp": AtomicFile appends a dot and this to the path.
bool is_temporary_ending(std::string_view ending) {
  const auto digits = [&ending] {
    const size_t count = std::min(ending.find_first_not_of("0123456789"), ending.size());
    ending.remove_prefix(count);
    return count > 0;
  };
  if (!digits() || !ending.starts_with('-')) return false;
  ending.remove_prefix(1);
  return digits() && ending == ".tmp";
}

}  // namespace

std::string io_reason(int error) {
  if (error == ENOSPC) return "no space left on the device: free some space or choose another folder";
  if (error == EDQUOT) return "disk quota exceeded: free some space or choose another folder";
  if (error == EFBIG) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      return fmt::format("the file would be larger than the limit of {} on file sizes (ulimit -f): raise the limit",
                         human_bytes(static_cast<int64_t>(limit.rlim_cur)));
    return "the file would be larger than the file system allows: choose another folder";
  }
  if (error == EMFILE) return "too many open files: raise the limit on open files (ulimit -n)";
  return std::strerror(error);
}

std::string read_file(const fs::path& path) {
  const FileDescriptor file = open_for_reading(path);
  std::string content(static_cast<size_t>(size_of_regular_file(file, path)), '\0');
  // The size is only a hint: it is 0 for /proc files, and a file may grow while being read.
  size_t done = 0;
  for (;;) {
    if (done == content.size()) content.resize(content.size() + 4096);
    const ssize_t n = ::read(file.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", path.string(), io_reason(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  return content;
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

int64_t free_bytes(const fs::path& path) {
  fs::path place = fs::absolute(path).lexically_normal();
  std::error_code ignored;
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  struct statvfs info {};
  if (::statvfs(place.c_str(), &info) != 0)
    fail("cannot ask for the free space at {}: {}", place.string(), io_reason(errno));
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

void require_free_bytes(const fs::path& path, int64_t bytes) {
  const int64_t available = free_bytes(path);
  if (bytes > available) {
    fail("{}: {} needed, {} free: free some space or choose another folder", path.string(), human_bytes(bytes),
         human_bytes(available));
  }
}

void sync_directory(const fs::path& directory) {
  const FileDescriptor handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems do not support fsync on directories (EINVAL): their renames are already durable.
  if (!handle || (::fsync(handle.get()) != 0 && errno != EINVAL)) {
    fail("cannot write to {}: {}", directory.string(), io_reason(errno));
  }
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void FileDescriptor::close(const fs::path& path) {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0) fail("cannot write {}: {}", path.string(), io_reason(errno));
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  // Created with the mode given by the user's umask (mkstemp would make it private); the name contains the process id,
  // so that ranks writing next to each other never collide.
  for (int attempt = 0; !file_; ++attempt) {
    temporary_ = path_;
    temporary_ += fmt::format(".{}-{}.tmp", ::getpid(), attempt);
    int error = 0;
    create_removable(temporary_, [&] {
      file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      error = errno;
      return static_cast<bool>(file_);
    });
    if (!file_ && error != EEXIST) fail("cannot write {}: {}", path_.string(), io_reason(error));
    // The lock shows that the writer is alive. A cleanup may have removed the file before it was locked; without lock
    // support, nothing is ever cleaned up.
    if (file_ &&
        (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 ? errno == EWOULDBLOCK : !is_still_at(file_, temporary_))) {
      drop_removal(temporary_);
      file_ = {};
    }
  }
}

FileLock::FileLock(fs::path path) : path_(std::move(path)) {
  for (;;) {
    file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    struct stat info {};
    if (!file_ || ::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      file_ = {};
      return;
    }
    int status = ::flock(file_.get(), LOCK_EX | LOCK_NB);
    if (status != 0 && errno == EWOULDBLOCK) {
      waited_ = true;
      while ((status = ::flock(file_.get(), LOCK_EX)) != 0 && errno == EINTR) continue;
    }
    if (status != 0) {
      file_ = {};
      return;
    }
    // Otherwise the previous holder has removed it: the file to wait for is a new one of this name.
    if (is_still_at(file_, path_)) return;
  }
}

FileLock::~FileLock() {
  if (file_) ::unlink(path_.c_str());
}

void remove_abandoned_lock(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && is_still_at(file, path)) ::unlink(path.c_str());
}

int remove_abandoned(const fs::path& path) {
  return remove_abandoned(directory_of(path), [beginning = path.filename().string() + "."](std::string_view name) {
    return name.starts_with(beginning) && is_temporary_ending(name.substr(beginning.size()));
  });
}

int remove_all_abandoned(const fs::path& folder) {
  return remove_abandoned(folder, [](std::string_view name) {
    const size_t ending = name.ends_with(".tmp") ? name.rfind('.', name.size() - 5) : name.npos;
    return ending != name.npos && ending > 0 && is_temporary_ending(name.substr(ending + 1));
  });
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)),
      direct_(std::move(other.direct_)),
      size_(other.size_),
      synced_(other.synced_) {}

AtomicFile::~AtomicFile() {
  direct_.reset();  // its thread writes to the file
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  drop_removal(temporary_);
}

void AtomicFile::expect(int64_t bytes) {
  PARTITA_CHECK(file_ && size_ == 0 && !direct_, "{} has been begun", path_.string());
  // File systems without reservations say so at once; posix_fallocate would write the whole file instead.
  int status = 0;
  while (bytes > 0 && (status = ::fallocate(file_.get(), 0, 0, bytes)) != 0 && errno == EINTR) continue;
  if (status != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
    fail("cannot write {}: {}", path_.string(), io_reason(errno));
  if (bytes >= kDirectFrom) direct_ = std::make_unique<DirectWriter>(file_.get(), path_);
}

int64_t AtomicFile::buffer_bytes(int64_t bytes) { return bytes >= kDirectFrom ? 2 * DirectWriter::kBufferBytes : 0; }

void AtomicFile::write(std::span<const std::byte> bytes) {
  PARTITA_CHECK(file_ && !synced_, "write to {} after sync", path_.string());
  if (direct_) {
    direct_->write(bytes);
    size_ += std::ssize(bytes);
    return;
  }
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write {}: {}", path_.string(), io_reason(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
    size_ += n;
  }
}

void AtomicFile::sync() {
  PARTITA_CHECK(file_ && !synced_, "second sync of {}", path_.string());
  if (direct_) direct_->finish();
  direct_.reset();
  if (::fsync(file_.get()) != 0) fail("cannot write {}: {}", path_.string(), io_reason(errno));
  synced_ = true;
}

void AtomicFile::publish() {
  PARTITA_CHECK(synced_ && !temporary_.empty(), "publish of {} without sync, or twice", path_.string());
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot write {}: {}", path_.string(), io_reason(errno));
  close_published();
}

bool AtomicFile::publish_new() {
  PARTITA_CHECK(synced_ && !temporary_.empty(), "publish of {} without sync, or twice", path_.string());
  // File systems without hard links may support the alternative.
  const bool linked = ::link(temporary_.c_str(), path_.c_str()) == 0;
  if (!linked && errno == EEXIST) return false;
  if (linked) {
    ::unlink(temporary_.c_str());
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return false;
    fail("cannot write {}: {}", path_.string(), io_reason(errno));
  }
  close_published();
  return true;
}

void AtomicFile::close_published() {
  drop_removal(temporary_);
  temporary_.clear();
  file_.close(path_);  // not earlier, since it holds the lock
  sync_directory(directory_of(path_));
}

void AtomicFile::commit() {
  sync();
  publish();
}

MappedFile::MappedFile(fs::path path, Access access) : path_(std::move(path)) {
  // The path may be a pipe, which must not block.
  const FileDescriptor file = open_for_reading(path_, O_NONBLOCK);
  require_regular(file, path_);
  const auto size = static_cast<size_t>(size_of_regular_file(file, path_));
  if (size == 0) return;  // mmap rejects empty ranges
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED)
    fail("cannot map {} ({}): {}", path_.string(), human_bytes(int64_t(size)), io_reason(errno));
  ::madvise(address, size, access == Access::random ? MADV_RANDOM : MADV_SEQUENTIAL);
  bytes_ = {static_cast<const std::byte*>(address), size};
  enter_mapping(address, size, path_.string());
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  leave_mapping(bytes_.data());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::check_range(int64_t offset, int64_t count, size_t item_bytes, size_t alignment) const {
  const int64_t item = static_cast<int64_t>(item_bytes);
  if (offset < 0 || count < 0 || offset > size() || count > (size() - offset) / item) {
    fail("{} is damaged or cut short: {} items of {} bytes were expected at byte {}, the file holds {} bytes",
         path_.string(), count, item, offset, size());
  }
  if (reinterpret_cast<uintptr_t>(bytes_.data() + offset) % alignment != 0) {
    fail("{}: byte {} is not aligned to {} bytes", path_.string(), offset, alignment);
  }
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while ((value >= 1023.95 || value <= -1023.95) && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace partita::internal
