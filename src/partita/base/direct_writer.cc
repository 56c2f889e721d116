#include "partita/base/direct_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"

namespace partita::internal {
namespace {

// Whether the file system accepted.
bool set_direct(int file, bool on) {
  const int flags = ::fcntl(file, F_GETFL);
  return flags >= 0 && ::fcntl(file, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace

void DirectWriter::Free::operator()(std::byte* memory) const { std::free(memory); }

DirectWriter::DirectWriter(int file, std::filesystem::path path)
    : file_(file), path_(std::move(path)), direct_(set_direct(file, true)) {
  for (Buffer& buffer : buffers_) {
    buffer.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kBlock, kBufferBytes)));
    if (!buffer.memory) throw std::bad_alloc();
  }
  thread_ = std::thread([this] { run(); });
}

DirectWriter::~DirectWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    for (Buffer& buffer : buffers_) buffer.full = false;
  }
  changed_.notify_all();
  thread_.join();
}

void DirectWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    Buffer& buffer = buffers_[filling_];
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !buffer.full; });
      if (error_) std::rethrow_exception(error_);
    }
    const auto count = static_cast<size_t>(std::min(std::ssize(bytes), kBufferBytes - buffer.used));
    std::memcpy(buffer.memory.get() + buffer.used, bytes.data(), count);
    buffer.used += static_cast<int64_t>(count);
    bytes = bytes.subspan(count);
    if (buffer.used == kBufferBytes) hand_over();
  }
}

void DirectWriter::hand_over() {
  {
    const std::lock_guard lock(mutex_);
    buffers_[filling_].full = true;
  }
  changed_.notify_all();
  filling_ = 1 - filling_;
}

void DirectWriter::finish() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return std::ranges::none_of(buffers_, &Buffer::full); });
    if (error_) std::rethrow_exception(error_);
  }
  // Direct access takes whole blocks only.
  const Buffer& last = buffers_[filling_];
  const int64_t whole = last.used / kBlock * kBlock;
  const std::span<const std::byte> bytes(last.memory.get(), static_cast<size_t>(last.used));
  pwrite_all(bytes.first(static_cast<size_t>(whole)));
  if (std::exchange(direct_, false)) (void)set_direct(file_, false);
  pwrite_all(bytes.subspan(static_cast<size_t>(whole)));
}

void DirectWriter::run() {
  for (size_t turn = 0;; turn = 1 - turn) {
    Buffer& buffer = buffers_[turn];
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return buffer.full || ends_; });
      if (ends_) return;
    }
    std::exception_ptr error;
    try {
      pwrite_all({buffer.memory.get(), static_cast<size_t>(buffer.used)});
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (error && !error_) error_ = error;
      buffer.used = 0;
      buffer.full = false;
    }
    changed_.notify_all();
  }
}

void DirectWriter::pwrite_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_, bytes.data(), bytes.size(), written_);
    if (n < 0 && errno == EINTR) continue;
    // Some file systems accept the flag, but not the access; and a short write may have ended inside a block.
    if (n < 0 && errno == EINVAL && std::exchange(direct_, false) && set_direct(file_, false)) continue;
    if (n < 0) fail("cannot write {}: {}", path_.string(), io_reason(errno));
    if (n == 0) fail("cannot write {}: the file system takes no more bytes", path_.string());
    bytes = bytes.subspan(static_cast<size_t>(n));
    written_ += n;
  }
}

}  // namespace partita::internal
