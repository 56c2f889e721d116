// Activations and temporaries: named, listed by pure functions of the shape, laid out in memory that is allocated once.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "partita/base/dtype.h"

namespace partita {

// How much a block keeps from forward to backward. Each level keeps what those before it keep, and more:
// entry: its input after the add, all else is recomputed; attention: all but norms and what the MLP makes; selective:
// all but norms and activation functions. never: no level keeps it.
enum class Keep : uint8_t { nothing, entry, attention, selective, all, never };

struct BufferSpec {
  const char* name;
  std::vector<int64_t> shape;
  DType dtype = DType::fp32;
  Keep from = Keep::all;  // saved(): outlives forward at this level and above; scratch(): not read
};

// Bytes of these buffers laid side by side, each aligned to 64.
[[nodiscard]] int64_t bytes_of(std::span<const BufferSpec>);

// Views of `memory` (uint8, at least bytes_of(specs)), one a spec.
[[nodiscard]] std::vector<at::Tensor> carve(at::Tensor memory, std::span<const BufferSpec> specs);

// What one block keeps of one micro-batch. A slot that is not kept still has memory, shared with other blocks: forward
// writes it, and it must be written again (recompute) before backward reads it.
struct Saved {
  std::vector<at::Tensor> slots;
  std::vector<bool> kept;
  const at::Tensor& operator[](int slot) const { return slots[static_cast<size_t>(slot)]; }
};

}  // namespace partita
