// How the gradients of a unit are reduced into this rank's slice, and the memory that takes. Pure; GradientStore
// allocates it.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/shard/slots.h"

namespace partita::internal {

enum class Reduction : uint8_t {
  in_place,       // one rank, unshared buffers: the full gradient is the slice
  once,           // once after the last micro-batch, into the slice
  each_then_add,  // after each micro-batch: the first into the slice, later ones into a receive buffer, then added
};

enum class SliceMemory : uint8_t {
  none,     // frozen unit
  full,     // in the full gradient's buffer
  own,      // a buffer of its own
  receive,  // in the slot's receive buffer, on its way to the host
};

struct GradientPlan {
  Reduction reduction = Reduction::once;
  bool shared = false;                 // layers share two slots
  SlotPlan slots;                      // of full gradients
  std::vector<int64_t> receive_count;  // [slot]: elements of the receive buffer; 0: none
  std::vector<DType> receive_dtype;    // [slot]
  std::vector<SliceMemory> slice;      // [unit]
  std::vector<DType> slice_dtype;      // [unit]
  std::vector<int64_t> slice_count;    // [unit]: elements
  std::vector<bool> on_host;           // [unit]: slices are copied to host memory as soon as they are complete
  std::vector<bool> adds_on_host;      // [unit]: after each micro-batch, and added there

  [[nodiscard]] int64_t full_bytes() const;     // slots
  [[nodiscard]] int64_t receive_bytes() const;  // receive buffers
  [[nodiscard]] int64_t slice_bytes() const;    // slices with buffers of their own
  [[nodiscard]] int64_t host_bytes() const;     // offloaded slices, and buffers in which what is added arrives
  [[nodiscard]] int64_t arrival_bytes() const;  // of each of two such buffers
  [[nodiscard]] int64_t bytes() const { return full_bytes() + receive_bytes() + slice_bytes(); }  // on the device
};

// With sharded gradients (ZeRO-2 and 3) layers share two buffers. Otherwise only units whose gradients leave the device
// at once share them (Unit::shares_gradient_buffer).
[[nodiscard]] GradientPlan plan_gradients(const UnitPlan&, const Sharding&, int micro_batches);

// Reduce-scatters per step over the shard ranks.
[[nodiscard]] int64_t count_reductions(const UnitPlan&, const GradientPlan&, int micro_batches);

}  // namespace partita::internal
