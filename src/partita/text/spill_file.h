// An unnamed temporary file that grows and is read back once: holds data until a count is known, in constant memory.
//   SpillFile lengths("data");                // on the file system of this folder
//   lengths.append(int32_t{17});
//   lengths.read_back([&](std::span<const std::byte> piece) { out.write(piece); });
//
// Created unnamed, so the kernel frees it however the process ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "partita/base/file.h"

namespace partita::internal {

class SpillFile {
 public:
  // Error: the folder cannot be written.
  explicit SpillFile(std::filesystem::path directory);

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void append(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= kBuffer) flush();
  }
  // Reads everything in order, in pieces whose size is a multiple of 8 bytes (except the last). Error: a full disk, a
  // short read.
  void read_back(const std::function<void(std::span<const std::byte>)>& use);

 private:
  static constexpr size_t kBuffer = size_t{1} << 16;
  void flush();

  std::filesystem::path directory_;
  FileDescriptor file_;
  std::vector<std::byte> buffer_;
  int64_t written_ = 0;
};

}  // namespace partita::internal
