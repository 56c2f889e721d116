// Writes a new file from its beginning to its end around the page cache, in a thread of its own, while the caller
// prepares the next bytes. A large file is written several times as fast as through the page cache, and leaves the
// memory of the machine to others.
//
//   DirectWriter out(file.get(), path);
//   for (auto piece : pieces) out.write(piece);       // of any size
//   out.finish();                                     // everything is written; then fsync
//
// Where the file system has no direct access, the page cache is used.
#pragma once
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

namespace partita::internal {

class DirectWriter {
 public:
  static constexpr int64_t kBlock = 4096, kBufferBytes = int64_t{4} << 20;

  // `file` is open for writing, empty, and outlives this object. `path` is for messages.
  DirectWriter(int file, std::filesystem::path path);
  ~DirectWriter();  // gives up what is not yet written
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;

  // Copies the bytes. Error: an earlier write has failed.
  void write(std::span<const std::byte> bytes);
  // Writes what is left and waits. Call it once, last.
  void finish();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Buffer {
    std::unique_ptr<std::byte, Free> memory;
    int64_t used = 0;
    bool full = false;  // the thread's turn
  };

  void run();
  void hand_over();  // the buffer being filled
  void pwrite_all(std::span<const std::byte> bytes);

  int file_;
  std::filesystem::path path_;
  bool direct_ = false;
  int64_t written_ = 0;  // the thread's
  std::array<Buffer, 2> buffers_;
  size_t filling_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;  // last: uses everything above
};

}  // namespace partita::internal
