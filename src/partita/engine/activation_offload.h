// What layers keep from forward to backward, in host memory meanwhile: the layers share two buffers on the device, used
// in turn, so that one is copied while the other is computed with.
//
//   ActivationOffload offload(plan_activation_offload(keeps, kinds, layers), kept_bytes, {.device = device}, copies, compute);
//   offload.memory(b)                                // where block b keeps, undefined: memory of its own
//   forward of b:   offload.before_forward(b);  ...  offload.after_forward(b);
//   backward of b:  offload.before_backward(b); ...  offload.after_backward(b);
//
// The last two layers of those that were chosen stay where they are: backward begins with them. Evaluation, which keeps
// nothing for a backward, needs none of the calls.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <span>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/nn/buffers.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

// Of one block.
struct OffloadedBlock {
  int slot = -1;        // 0 or 1; -1: it is not offloaded
  bool leaves = false;  // its slot is another block's before backward comes to it
  int before = -1;      // the block that had the slot before it in forward, and has it again after it in backward
};

// [block]: the first `layers` blocks that are layers and keep anything. Pure.
[[nodiscard]] std::vector<OffloadedBlock> plan_activation_offload(std::span<const Keep> keeps,
                                                                  std::span<const BlockKind> kinds, int layers);

// Bytes of the two buffers that offloaded blocks use in turn. Pure.
[[nodiscard]] std::array<int64_t, 2> offload_slot_bytes(std::span<const OffloadedBlock>,
                                                        std::span<const int64_t> kept_bytes);

class ActivationOffload {
 public:
  struct Options {
    bool poison = false;  // slots are filled with NaN when another block gets them
    at::Device device = at::kCPU;
  };
  // kept_bytes[block]. copies and compute outlive it.
  ActivationOffload(std::vector<OffloadedBlock> plan, std::span<const int64_t> kept_bytes, const Options&,
                    Copies& copies, Stream& compute);

  [[nodiscard]] at::Tensor memory(int block) const { return memory_[static_cast<size_t>(block)]; }

  void before_forward(int block);
  void after_forward(int block);
  void before_backward(int block);
  void after_backward(int block);

  [[nodiscard]] int64_t bytes() const;  // of the slots
  [[nodiscard]] int64_t host_bytes() const;

 private:
  [[nodiscard]] const OffloadedBlock& block(int b) const { return plan_[static_cast<size_t>(b)]; }

  std::vector<OffloadedBlock> plan_;
  Options options_;
  Copies& copies_;
  Stream& compute_;
  std::array<at::Tensor, 2> slots_;
  std::vector<at::Tensor> memory_, host_;  // [block]: bytes
  std::vector<Event> left_, back_;         // [block]: its last copies
};

}  // namespace partita::internal
