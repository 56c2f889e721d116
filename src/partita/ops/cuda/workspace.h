// Scratch memory of the libraries (cuBLASLt, cuDNN) and of our own kernels between two launches: one block per stream,
// so that the memory plan has a single number. Work on a stream is ordered, so its users share the block.
//
//   void* memory = cuda::workspace(bytes);   // until the next call on this stream, in stream order
#pragma once
#include <cstddef>
#include <cstdint>

namespace partita::internal::cuda {

// What cuBLASLt's algorithms may use.
inline constexpr int64_t kMatmulWorkspace = int64_t{64} << 20;

// At least `bytes` for the current stream, 256-byte aligned, contents undefined. May reallocate if it has to grow, so
// request the maximum before graph capture.
[[nodiscard]] std::byte* workspace(int64_t bytes);

// Bytes held on the current device over all streams.
[[nodiscard]] int64_t workspace_bytes();

}  // namespace partita::internal::cuda
