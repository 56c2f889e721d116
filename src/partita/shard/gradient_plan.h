// How the gradients of a unit reach this rank's slice, and the memory that this takes. Pure: GradientStore allocates what
// stands here.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/shard/slots.h"

namespace partita::internal {

enum class Reduction : uint8_t {
  in_place,       // one rank with buffers of its own: the full gradient is the slice
  once,           // after the last micro-batch, into the slice
  each_then_add,  // after each micro-batch: the first into the slice, later ones into a receive buffer, then added
};

enum class SliceMemory : uint8_t {
  none,     // a frozen unit
  full,     // in the full gradient's buffer
  own,      // a buffer of its own
  receive,  // in the receive buffer of the slot, on its way to the host
};

struct GradientPlan {
  Reduction reduction = Reduction::once;
  bool offload = false;                // slices leave for host memory as soon as they are complete
  bool shared = false;                 // layers share two slots
  SlotPlan slots;                      // of full gradients
  std::vector<int64_t> receive_count;  // [slot]: elements of its receive buffer; 0: none
  std::vector<DType> receive_dtype;    // [slot]
  std::vector<SliceMemory> slice;      // [unit]
  std::vector<DType> slice_dtype;      // [unit]
  std::vector<int64_t> slice_count;    // [unit]: elements

  [[nodiscard]] int64_t full_bytes() const;     // of slots
  [[nodiscard]] int64_t receive_bytes() const;  // of receive buffers
  [[nodiscard]] int64_t slice_bytes() const;    // of slices with buffers of their own
  [[nodiscard]] int64_t host_bytes() const;     // of slices that left
  [[nodiscard]] int64_t bytes() const { return full_bytes() + receive_bytes() + slice_bytes(); }  // on the device
};

// Where full gradients are sharded (ZeRO 2 and 3) layers share two buffers. With offload and one micro-batch per step
// they do at any stage, since nothing is added to them later.
[[nodiscard]] GradientPlan plan_gradients(const UnitPlan&, const Sharding&, int micro_batches, bool offload);

// Reductions over the ranks of a shard in a step.
[[nodiscard]] int64_t count_reductions(const UnitPlan&, const GradientPlan&, int micro_batches);

}  // namespace partita::internal
