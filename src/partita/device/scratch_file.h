// A file without a name for data that does not fit into memory: read and written around the page cache by several
// threads at a time, and gone with the process, however that ends.
//
//   ScratchFile file("/nvme/scratch", bytes);
//   at::Tensor all = file.view(0, count, DType::fp32);      // in the address space, paged in when touched
//   Event there = file.read(memory, offset, bytes);         // memory, offset and bytes are multiples of kBlock
//   there.wait();
//   Event stored = file.write(memory, offset, bytes);
//
// What is written through a view is seen by later reads, and what write() has stored by views. Transfers of the same
// bytes must not overlap in time. Where the file system has no direct access, the page cache is used. (io_uring would
// do the same with one thread, but containers mostly forbid it.) With debug.delay_streams (device/stream_delay.h),
// transfers begin late at random.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/base/file.h"
#include "partita/device/stream.h"
#include "partita/device/worker.h"

namespace partita::internal {

class ScratchFile {
 public:
  static constexpr int64_t kBlock = 4096;
  [[nodiscard]] static int64_t whole_blocks(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

  // Creates the folder if it is missing and reserves `bytes`. checked: reads compare every block with a checksum of
  // what write() was given, taken when it was called. Errors: the folder cannot be written; less is free.
  ScratchFile(const std::filesystem::path& folder, int64_t bytes, bool checked = false);
  ~ScratchFile();  // ends transfers first
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] int64_t bytes() const { return bytes_; }
  // [count] at a byte offset; zero at the start. Must not be used after this object.
  [[nodiscard]] at::Tensor view(int64_t offset, int64_t count, DType) const;
  // Call it before writing through a view: the blocks of these bytes are not checked until the next write().
  void uncheck(int64_t offset, int64_t bytes);
  // `memory` must stay as it is until the returned event, whose wait() rethrows errors of the disk.
  [[nodiscard]] Event read(void* memory, int64_t offset, int64_t bytes) {
    return transfer(memory, offset, bytes, /*writes=*/false);
  }
  [[nodiscard]] Event write(void* memory, int64_t offset, int64_t bytes) {
    return transfer(memory, offset, bytes, /*writes=*/true);
  }

  // Whether transfers bypass the page cache.
  [[nodiscard]] bool is_direct() const { return direct_; }

 private:
  [[nodiscard]] Event transfer(void* memory, int64_t offset, int64_t bytes, bool writes);
  void move(std::byte* memory, int64_t offset, int64_t bytes, bool writes) const;
  void check(const std::byte* memory, int64_t offset, int64_t bytes) const;

  std::filesystem::path folder_;
  int64_t bytes_;
  bool direct_ = true;
  FileDescriptor file_;
  void* mapping_ = nullptr;
  std::vector<uint64_t> sums_;                    // [block]; 0: not known. Empty: nothing is checked
  size_t next_ = 0;                               // worker of the next piece
  std::vector<std::unique_ptr<Worker>> workers_;  // last: they end before what they use
};

}  // namespace partita::internal
