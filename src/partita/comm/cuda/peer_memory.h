// Device memory into which the ranks of a group on one host write directly, by the copy engines of their GPUs. NCCL's
// kernels need multiprocessors, which a large matmul occupies until its end; copies do not wait for it.
//
//   std::unique_ptr<PeerMemory> memory = PeerMemory::create(host, bytes);     // null: not possible here
//   memory->exchange(offset, row_bytes, sent, stream);                        // as Communicator::exchange
//
// Ranks wait for each other by flags in this memory, which the stream writes and waits for (cuStreamWriteValue32,
// cuStreamWaitValue32). Streams that share a hardware queue run in the order in which work was submitted to them: no
// deadlock, if it is submitted in an order in which it could also run one after another.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "partita/comm/communicator.h"

namespace partita::internal {

class PeerMemory {
 public:
  // `bytes` of memory on this rank's current device; ranks may differ. message_bytes: the most of a message, of which
  // the memory of a rank that receives holds two. Collective over the host communicator. Null, on all ranks, if one of
  // them cannot map another's memory: other hosts, no peer access, too little memory.
  [[nodiscard]] static std::unique_ptr<PeerMemory> create(Communicator& host, int64_t bytes, int64_t message_bytes = 0);
  // Frees the memory when no rank uses it any more: waits for the devices. Collective.
  static void close(std::unique_ptr<PeerMemory>, Communicator& host);
  // Without close, the memory stays until the process ends: freeing it would wait for other ranks.
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data(rank_); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] int64_t message_bytes() const { return message_bytes_; }
  [[nodiscard]] bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= data() && byte < data() + bytes_;
  }

  // Puts sent[r] [row_bytes] into row rank() of the rows at `offset` of rank r, for every other rank, and waits until
  // the others have put theirs here. All ranks call it, with the same offset and size.
  void exchange(int64_t offset, int64_t row_bytes, const std::vector<const void*>& sent, cudaStream_t);

  // Messages to the other rank of two, through the two halves of its memory: put waits until the half is free. They are
  // taken in the order in which they were put.
  void put(const void* from, int64_t bytes, cudaStream_t);
  void take(void* to, int64_t bytes, cudaStream_t);

 private:
  enum Flag : uint8_t { kReady, kArrived, kFreed, kFlags };
  PeerMemory(int rank, int ranks, int64_t bytes, int64_t message_bytes)
      : rank_(rank), bytes_(bytes), message_bytes_(message_bytes), mapped_(static_cast<size_t>(ranks)) {}
  [[nodiscard]] int ranks() const { return static_cast<int>(mapped_.size()); }
  [[nodiscard]] std::byte* data(int rank) const;
  // The flag that `writer` writes in the memory of `owner`.
  [[nodiscard]] uint64_t flag(int owner, Flag, int writer) const;
  void signal(int rank, Flag, uint32_t value, cudaStream_t) const;
  void wait(int writer, Flag, uint32_t value, cudaStream_t) const;

  int rank_;
  int64_t bytes_, message_bytes_;
  std::vector<void*> mapped_;  // [rank]: the flags, then the data
  uint32_t exchanges_ = 0, put_ = 0, taken_ = 0;
};

}  // namespace partita::internal
