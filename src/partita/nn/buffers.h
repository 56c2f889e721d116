// Named activation and scratch buffers, listed by pure functions of the shape and laid out in memory allocated once.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "partita/base/dtype.h"

namespace partita {

// What a block saves from forward to backward, the rest being recomputed. Each level includes the previous ones. entry:
// its input after the residual add; attention: all but norms and MLP intermediates; selective: all but norms and
// activation functions. never: not saved at any level.
enum class Keep : uint8_t { nothing, entry, attention, selective, all, never };

struct BufferSpec {
  const char* name;
  std::vector<int64_t> shape;
  DType dtype = DType::fp32;
  Keep from = Keep::all;  // saved(): kept from forward to backward at this level and above; scratch(): ignored
};

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
