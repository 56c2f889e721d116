// Named activation and scratch buffers, listed by pure functions of the shape and laid out in memory allocated once.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/nn/recompute.h"

namespace partita {

struct BufferSpec {
  const char* name;
  std::vector<int64_t> shape;
  DType dtype = DType::fp32;
  // In Block::saved(): the buffer is kept from forward to backward up to this mode, and recomputed in stronger ones;
  // empty: always recomputed.
  std::optional<Recompute> saved_up_to = Recompute::none;
};

[[nodiscard]] constexpr bool is_saved(const BufferSpec& buffer, BlockRecompute mode) {
  return mode && buffer.saved_up_to && *mode <= *buffer.saved_up_to;
}

// Total size with every buffer aligned to 64 bytes.
[[nodiscard]] int64_t bytes_of(std::span<const BufferSpec>);

// Views of `memory` (uint8, at least bytes_of(specs)), one per spec.
[[nodiscard]] std::vector<at::Tensor> carve(at::Tensor memory, std::span<const BufferSpec> specs);

// What one block saves of one micro-batch. A slot that is not kept uses memory shared with other blocks: forward writes
// it, and recompute must rewrite it before backward reads it.
struct Saved {
  std::vector<at::Tensor> slots;
  std::vector<bool> kept;
  const at::Tensor& operator[](int slot) const { return slots[static_cast<size_t>(slot)]; }
};

}  // namespace partita
