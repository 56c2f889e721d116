// Keeps the saved activations of the first layers in host memory between forward and backward. The layers alternate
// between two device buffers, so one is copied while the other is in use.
//
//   ActivationOffload offload(plan_activation_offload(keeps, kinds, layers), kept_bytes, {.device = device}, copies,
//                             compute);
//   offload.memory(b)                                // where block b saves; undefined: not offloaded
//   forward of b:   offload.before_forward(b);  ...  offload.after_forward(b);
//   backward of b:  offload.before_backward(b); ...  offload.after_backward(b);
//
// The last two of the chosen layers stay on the device, since backward starts with them. Evaluation saves nothing for
// backward and needs none of these calls.
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

struct OffloadedBlock {
  int slot = -1;        // 0 or 1; -1: not offloaded
  bool leaves = false;  // another block takes over its slot before its backward
  int before = -1;      // the previous owner of the slot in forward, which gets it back in backward
};

// [block]: selects the first `layers` blocks that are layers and save anything. Pure.
[[nodiscard]] std::vector<OffloadedBlock> plan_activation_offload(std::span<const BlockRecompute> recompute,
                                                                  std::span<const BlockKind> kinds, int layers);

// Sizes of the two buffers that offloaded blocks alternate between, in bytes. Pure.
[[nodiscard]] std::array<int64_t, 2> offload_slot_bytes(std::span<const OffloadedBlock>,
                                                        std::span<const int64_t> kept_bytes);

class ActivationOffload {
 public:
  struct Options {
    bool poison = false;  // fill a slot with NaN when it changes owner
    at::Device device = at::kCPU;
  };
  // kept_bytes[block]. copies and compute must outlive this object.
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
  std::vector<Event> left_, back_;         // [block]: its latest copy in each direction
};

}  // namespace partita::internal
