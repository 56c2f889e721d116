// Scratch memory of the libraries (cuBLASLt, cuDNN) and of our own kernels between two launches: one block for each
// stream, so that the memory plan has one number to count. Work on one stream runs in order, so its users share it.
//
//   void* memory = cuda::workspace(bytes);   // until the next call on this stream, in the order of the stream
#pragma once
#include <cstddef>
#include <cstdint>

namespace partita::internal::cuda {

// Least size of the block: what cuBLASLt's algorithms may use.
inline constexpr int64_t kMatmulWorkspace = int64_t{64} << 20;

// At least `bytes` for the current stream, aligned to 256 bytes, contents undefined. Grows when more is asked for than
// ever before on this stream: ask for the most before a graph is captured.
[[nodiscard]] std::byte* workspace(int64_t bytes);

// Bytes held on the current device, for all streams.
[[nodiscard]] int64_t workspace_bytes();

}  // namespace partita::internal::cuda
