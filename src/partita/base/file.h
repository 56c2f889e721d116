// Files: whole reads, crash-safe writes, read-only mappings, free space. Every error names the file and the cause.
//
//   std::string text = read_file("configs/quickstart.toml");
//   write_file("run/config.toml", text);                       // all or nothing
//   MappedFile tokens("data/text.bin");
//   std::span<const uint16_t> ids = tokens.as<uint16_t>(header_bytes, count);
//
//   AtomicFile out("model.safetensors");                       // a large file, piece by piece
//   for (auto piece : pieces) out.write(piece);
//   out.commit();                                              // without it the destructor removes the partial file
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {

class DirectWriter;

// Reads the whole file. Error: missing, unreadable, a directory.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

// Replaces `path` atomically: a temporary file next to it, fsync, rename, fsync of the directory. A reader, or a
// machine that loses power, sees either the old or the new content. Error (disk full, no such directory): `path` is
// unchanged and the temporary file is removed.
void write_file(const std::filesystem::path& path, std::string_view content);

// Bytes that an unprivileged user can still write at `path` (of its nearest existing parent).
[[nodiscard]] int64_t free_bytes(const std::filesystem::path& path);

// Error unless `bytes` more fit: "run/checkpoints: 12.3 GiB needed, 4.0 GiB free: ...".
void require_free_bytes(const std::filesystem::path& path, int64_t bytes);

// Explains a file's errno, as the end of a sentence; for a full disk, a quota and a size limit also what to do.
[[nodiscard]] std::string io_reason(int error);

// Makes a created, renamed or removed directory entry durable.
void sync_directory(const std::filesystem::path& directory);

// An owned file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  // Closes now. Error: delayed kernel errors (NFS, quotas); `path` is for the message.
  void close(const std::filesystem::path& path);

 private:
  int fd_ = -1;
};

// Mutual exclusion for short operations (OwnerLock is for long-lived ownership): the file stays locked until this
// object is destroyed, which removes it. The lock of a dead process is free. held() is false if the file cannot be
// written or the file system has no locks. Some network file systems lock within one machine only.
class FileLock {
 public:
  explicit FileLock(std::filesystem::path path);  // waits for its turn
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  [[nodiscard]] bool held() const { return static_cast<bool>(file_); }
  [[nodiscard]] bool waited() const { return waited_; }  // another process held it first

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  bool waited_ = false;
};

// Removes a FileLock's file left behind by a killed process; does nothing while it is held.
void remove_abandoned_lock(const std::filesystem::path& path);

// Removes temporary files left behind by killed writers of `path`, and returns their number. Active writers hold a lock
// on their file. Locks are reliably visible only on file systems private to one machine; on others (NFS, Lustre, FUSE,
// ...) nothing is removed.
int remove_abandoned(const std::filesystem::path& path);
// The same for every file in the folder, not in subfolders.
int remove_all_abandoned(const std::filesystem::path& folder);

// A file written in pieces that appears under its name only on commit(). commit() can be split: a set of files is first
// synced, which takes long and may fail, and then published one by one.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  // Before the first write: reserves this size, so that a full disk shows now. Large files are then written around the
  // page cache, by a thread.
  void expect(int64_t bytes);
  // The buffers that a file of this size takes.
  [[nodiscard]] static int64_t buffer_bytes(int64_t bytes);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  [[nodiscard]] int64_t size() const { return size_; }  // bytes written so far
  // Makes the content durable; nothing may be written afterwards. Error: a full disk, even if reported late.
  void sync();
  // Rename and fsync of the directory; requires sync().
  void publish();
  // Like publish(), but never replaces an existing file: returns false and discards this one. Error: not supported by
  // the file system.
  bool publish_new();
  // sync and publish.
  void commit();

 private:
  void close_published();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once published
  FileDescriptor file_;              // locked
  std::unique_ptr<DirectWriter> direct_;
  int64_t size_ = 0;
  bool synced_ = false;
};

// A read-only file mapping. Pages are loaded when touched; the address stays valid when the object is moved.
class MappedFile {
 public:
  enum class Access { sequential, random };  // readahead hint for the kernel

  MappedFile() = default;
  explicit MappedFile(std::filesystem::path path, Access access = Access::random);
  MappedFile(MappedFile&& other) noexcept : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // `count` values of T starting at byte `offset`. Error: they extend past the end of the file (truncated), or `offset`
  // is misaligned for T.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::span<const T> as(int64_t offset, int64_t count) const {
    check_range(offset, count, sizeof(T), alignof(T));
    return {reinterpret_cast<const T*>(bytes_.data() + offset), static_cast<size_t>(count)};
  }

 private:
  void check_range(int64_t offset, int64_t count, size_t item_bytes, size_t alignment) const;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// "12.3 GiB", "512 B": for messages and tables.
[[nodiscard]] std::string human_bytes(int64_t bytes);

}  // namespace partita::internal
