// Files: whole reads, crash-safe writes, read-only maps, free space. Every error names the file and the cause.
//
//   std::string text = read_file("configs/quickstart.toml");
//   write_file("run/config.toml", text);                       // complete under its name, or not there at all
//   MappedFile tokens("data/text.bin");
//   std::span<const uint16_t> ids = tokens.as<uint16_t>(header_bytes, count);
//
//   AtomicFile out("model.safetensors");                       // a large file, piece by piece
//   for (auto piece : pieces) out.write(piece);
//   out.commit();                                              // without it the destructor removes what was written
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {

// The whole file. Error: missing, unreadable, a directory.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

// Replaces `path` in one step: a temporary file beside it, fsync, rename, fsync of the directory. A reader, or a
// machine that loses power, sees the old content or the new one. Error (disk full, no such directory): `path` is as
// it was and the temporary file is gone.
void write_file(const std::filesystem::path& path, std::string_view content);

// Bytes that an unprivileged user may still write where `path` is or will be (its nearest existing parent).
[[nodiscard]] int64_t free_bytes(const std::filesystem::path& path);

// Error unless `bytes` more fit: "run/checkpoints: 12.3 GiB needed, 4.0 GiB free: ...".
void require_free_bytes(const std::filesystem::path& path, int64_t bytes);

// What an errno of a file means, as the end of a sentence; a full disk, a quota and a size limit also say what to do.
[[nodiscard]] std::string io_reason(int error);

// Makes a created, renamed or removed name in the directory durable.
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
  // Closes now. Error: what the kernel reports late (NFS, quotas); `path` is for the message.
  void close(const std::filesystem::path& path);

 private:
  int fd_ = -1;
};

// For a short stretch of work that processes do in turn (for what one of them owns while it runs: OwnerLock): a file
// that is locked until this object is destroyed, which removes it. A dead process's lock is free. held() is false where
// the file cannot be written or the file system has no locks. Some network file systems lock for one machine only.
class FileLock {
 public:
  explicit FileLock(std::filesystem::path path);  // waits for its turn
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  [[nodiscard]] bool held() const { return static_cast<bool>(file_); }
  [[nodiscard]] bool waited() const { return waited_; }  // somebody else had it before

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  bool waited_ = false;
};

// Removes the file of a FileLock that a process which was killed left behind; does nothing where it is held.
void remove_abandoned_lock(const std::filesystem::path& path);

// Removes the temporary files that writers of `path` left behind when they were killed, and returns how many. A writer
// at work has its file locked. A lock is sure to be seen by everybody only on a file system that one machine has for
// itself; on any other (NFS, Lustre, FUSE, ...) nothing is removed.
int remove_abandoned(const std::filesystem::path& path);
// The same for every file in the folder, not in the folders within it.
int remove_all_abandoned(const std::filesystem::path& folder);

// A file written piece by piece that appears under its name only by commit(), or its two halves: several files that
// belong together are first all synced, which takes long and may fail, and then published one after the other.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(AtomicFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})),
        file_(std::move(other.file_)),
        size_(other.size_),
        synced_(other.synced_) {}
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  [[nodiscard]] int64_t size() const { return size_; }  // bytes written so far
  // Makes the content durable; nothing is written after it. Error: a full disk, also one that is found late.
  void sync();
  // After sync: rename, fsync of the directory.
  void publish();
  // The same, but what has the name already stays: false, and this file is none. Error: a file system that cannot.
  bool publish_new();
  // sync and publish.
  void commit();

 private:
  void close_published();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once published
  FileDescriptor file_;              // locked
  int64_t size_ = 0;
  bool synced_ = false;
};

// A file mapped for reading. Pages come in when touched; the address is stable when the object is moved.
class MappedFile {
 public:
  enum class Access { sequential, random };  // how the kernel reads ahead

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

  // `count` values of T that start `offset` bytes into the file. Error: they reach beyond its end (the file is cut
  // short), or `offset` is not aligned for T.
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
