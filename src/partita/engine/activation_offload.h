// Keeps the saved activations of the first layers in host memory between forward and backward. The layers alternate
// between two device buffers, so one is copied while the other is in use.
//
//   const OffloadPlan plan = plan_activation_offload(recompute, kinds, layers, slots, uses, head, times);
//   ActivationOffload offload(plan, kept_bytes, {.device = device}, copies, compute);
//   offload.memory(b)                                // where block b saves, in every slot; undefined: not offloaded
//   for each step:
//     offload.begin();
//     each pass of a block, in order of the uses:  offload.before(slot, b, pass);  ...  offload.after(slot, b, pass);
//     at the end of a pass of all blocks of a chunk:  offload.end_pass();
//
// What is in a buffer when its backward begins, such as that of the last two of the layers after their forward, has not
// left. Evaluation saves nothing for backward and needs none of these calls.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <span>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/nn/buffers.h"
#include "partita/nn/parameter.h"
#include "partita/shard/use_plan.h"

namespace partita::internal {

// A pass of an offloaded block over what it saves for the micro-batch in a slot.
struct OffloadUse {
  int slot, block;
  Pass pass;

  bool leaves = false;   // forward: what is saved is copied to the host
  int overwrites = -1;   // forward: the use whose content is still being copied out of the buffer
  bool returns = false;  // backward: what was saved is copied back to the device
  int next = -1;         // the use whose content is copied into the buffer when this one ends
};

struct OffloadPlan {
  std::vector<int> buffer;       // [block]: 0 or 1; -1: not offloaded
  std::vector<OffloadUse> uses;  // of a step
  size_t head = 0;               // as in UsePlan
  int times = 1;
  std::vector<bool> leaves;  // [slot * blocks + block]: has host memory

  [[nodiscard]] std::array<int64_t, 2> buffer_bytes(std::span<const int64_t> kept_bytes) const;
  [[nodiscard]] int64_t host_bytes(std::span<const int64_t> kept_bytes) const;
  // Per step, in one direction.
  [[nodiscard]] int64_t copied_bytes(std::span<const int64_t> kept_bytes) const;
};

struct SlotUse {  // of any block; slot: that of its micro-batch's activations
  int slot;
  BlockUse use;
};

// Selects the first `layers` blocks that are layers and save anything. uses: of a step, in order; the first `head` of
// them run `times` times, each time with other micro-batches. Pure.
[[nodiscard]] OffloadPlan plan_activation_offload(std::span<const BlockRecompute> recompute,
                                                  std::span<const BlockKind> kinds, int layers, int slots,
                                                  std::span<const SlotUse> uses, size_t head, int times);

class ActivationOffload {
 public:
  struct Options {
    bool poison = false;  // fill a buffer with NaN when its content is dead
    at::Device device = at::kCPU;
  };
  // kept_bytes[block]. The plan, copies and compute must outlive this object.
  ActivationOffload(const OffloadPlan& plan, std::span<const int64_t> kept_bytes, const Options&, Copies& copies,
                    Stream& compute);

  [[nodiscard]] at::Tensor memory(int block) const { return memory_[static_cast<size_t>(block)]; }

  void begin();
  void before(int slot, int block, Pass);
  void after(int slot, int block, Pass);
  // Of the blocks of a chunk: until then the next block, or stage, reads the residual that a forward pass has saved.
  void end_pass();

  [[nodiscard]] int64_t bytes() const;  // of the buffers
  [[nodiscard]] int64_t host_bytes() const;

 private:
  // The use that is due; null: the block is not offloaded.
  [[nodiscard]] const OffloadUse* due(int slot, int block, Pass) const;
  // Begins the copy into the buffer of a use that has ended.
  void fetch_after(const OffloadUse&);
  [[nodiscard]] size_t key(const OffloadUse& use) const {
    return static_cast<size_t>(use.slot) * plan_.buffer.size() + static_cast<size_t>(use.block);
  }

  const OffloadPlan& plan_;
  Options options_;
  Copies& copies_;
  Stream& compute_;
  size_t next_ = 0;                            // index in uses
  int times_ = 0;                              // remaining repetitions of the head
  std::vector<const OffloadUse*> after_pass_;  // of the running forward pass, whose buffers are taken when it ends
  std::array<at::Tensor, 2> buffers_;
  std::vector<at::Tensor> memory_;  // [block]: bytes
  std::vector<at::Tensor> host_;    // [slot * blocks + block]
  std::vector<Event> left_, back_;  // [slot * blocks + block]: the latest copy in each direction
};

}  // namespace partita::internal
