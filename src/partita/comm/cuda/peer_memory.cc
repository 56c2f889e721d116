#include "partita/comm/cuda/peer_memory.h"

#include <cuda.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "partita/base/cuda_error.h"
#include "partita/base/error.h"
#include "partita/device/device_use.h"

namespace partita::internal {
namespace {

constexpr int64_t kFlagBytes = 4096;

void check_driver(CUresult result, const char* call) {
  const char* text = "unknown error";
  if (result == CUDA_SUCCESS) return;
  (void)cuGetErrorString(result, &text);
  fail("{} failed: {}", call, text);
}

// What a rank tells the others.
struct Handle {
  std::array<char, 64> host{};
  cudaIpcMemHandle_t memory{};
};

std::string bytes_of(const Handle& handle) { return {reinterpret_cast<const char*>(&handle), sizeof handle}; }

}  // namespace

std::unique_ptr<PeerMemory> PeerMemory::create(Communicator& host, int64_t bytes, int64_t message_bytes) {
  if (host.size() * kFlags * 4 > kFlagBytes) return nullptr;  // more ranks than GPUs of any host
  std::unique_ptr<PeerMemory> memory(new PeerMemory(host.rank(), host.size(), bytes, message_bytes));
  void*& own = memory->mapped_[static_cast<size_t>(host.rank())];
  Handle handle;
  (void)gethostname(handle.host.data(), handle.host.size() - 1);
  bool possible = cudaMalloc(&own, static_cast<size_t>(kFlagBytes + bytes)) == cudaSuccess &&
                  cudaMemset(own, 0, static_cast<size_t>(kFlagBytes)) == cudaSuccess &&
                  cudaDeviceSynchronize() == cudaSuccess && cudaIpcGetMemHandle(&handle.memory, own) == cudaSuccess;
  const std::vector<std::string> all = gather_strings(host, bytes_of(handle));
  for (size_t r = 0; r < all.size() && possible; ++r) {
    if (static_cast<int>(r) == host.rank()) continue;
    Handle other;
    std::memcpy(&other, all[r].data(), sizeof other);
    possible = other.host == handle.host &&
               cudaIpcOpenMemHandle(&memory->mapped_[r], other.memory, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
  }
  (void)cudaGetLastError();  // of what was tried
  for (const std::string& answer : gather_strings(host, possible ? "yes" : "no"))
    possible = possible && answer == "yes";
  count_device_memory(kFlagBytes + bytes);
  if (!possible) close(std::exchange(memory, nullptr), host);
  return memory;
}

void PeerMemory::close(std::unique_ptr<PeerMemory> memory, Communicator& host) {
  (void)cudaDeviceSynchronize();  // this rank's copies into it, and its use
  for (int r = 0; r < memory->ranks(); ++r)
    if (void* other = memory->mapped_[static_cast<size_t>(r)]; r != memory->rank_ && other != nullptr)
      (void)cudaIpcCloseMemHandle(other);
  host.barrier();
  (void)cudaFree(memory->mapped_[static_cast<size_t>(memory->rank_)]);
  count_device_memory(-kFlagBytes - memory->bytes_);
}

std::byte* PeerMemory::data(int rank) const {
  return static_cast<std::byte*>(mapped_[static_cast<size_t>(rank)]) + kFlagBytes;
}

uint64_t PeerMemory::flag(int owner, Flag kind, int writer) const {
  auto* flags = static_cast<uint32_t*>(mapped_[static_cast<size_t>(owner)]);
  return reinterpret_cast<uint64_t>(flags + kind * ranks() + writer);
}

void PeerMemory::signal(int rank, Flag kind, uint32_t value, cudaStream_t stream) const {
  check_driver(cuStreamWriteValue32(stream, flag(rank, kind, rank_), value, CU_STREAM_WRITE_VALUE_DEFAULT),
               "cuStreamWriteValue32");
}

void PeerMemory::wait(int writer, Flag kind, uint32_t value, cudaStream_t stream) const {
  check_driver(cuStreamWaitValue32(stream, flag(rank_, kind, writer), value, CU_STREAM_WAIT_VALUE_GEQ),
               "cuStreamWaitValue32");
}

void PeerMemory::exchange(int64_t offset, int64_t row_bytes, const std::vector<const void*>& sent,
                          cudaStream_t stream) {
  PARTITA_CHECK(offset >= 0 && offset + row_bytes * ranks() <= bytes_, "rows end at {} of {} bytes",
                offset + row_bytes * ranks(), bytes_);
  const uint32_t round = ++exchanges_;
  const auto each_peer = [&](auto visit) {  // each with another peer at a time
    for (int i = 1; i < ranks(); ++i) visit((rank_ + i) % ranks());
  };
  each_peer([&](int peer) { signal(peer, kReady, round, stream); });  // it may overwrite its row here
  each_peer([&](int peer) {
    wait(peer, kReady, round, stream);
    PARTITA_CUDA_CHECK(cudaMemcpyAsync(data(peer) + offset + rank_ * row_bytes, sent[static_cast<size_t>(peer)],
                                       static_cast<size_t>(row_bytes), cudaMemcpyDeviceToDevice, stream));
    signal(peer, kArrived, round, stream);
  });
  each_peer([&](int peer) { wait(peer, kArrived, round, stream); });
}

void PeerMemory::put(const void* from, int64_t bytes, cudaStream_t stream) {
  PARTITA_CHECK(bytes <= message_bytes_, "a message of {} bytes, at most {}", bytes, message_bytes_);
  const uint32_t number = ++put_;
  const int peer = 1 - rank_;
  wait(peer, kFreed, number - 2, stream);
  PARTITA_CUDA_CHECK(cudaMemcpyAsync(data(peer) + number % 2 * message_bytes_, from, static_cast<size_t>(bytes),
                                     cudaMemcpyDeviceToDevice, stream));
  signal(peer, kArrived, number, stream);
}

void PeerMemory::take(void* to, int64_t bytes, cudaStream_t stream) {
  PARTITA_CHECK(bytes <= message_bytes_, "a message of {} bytes, at most {}", bytes, message_bytes_);
  const uint32_t number = ++taken_;
  const int peer = 1 - rank_;
  wait(peer, kArrived, number, stream);
  PARTITA_CUDA_CHECK(cudaMemcpyAsync(to, data() + number % 2 * message_bytes_, static_cast<size_t>(bytes),
                                     cudaMemcpyDeviceToDevice, stream));
  signal(peer, kFreed, number, stream);
}

}  // namespace partita::internal
