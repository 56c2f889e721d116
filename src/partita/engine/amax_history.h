// Delayed scaling for fp8 (P. Micikevicius et al., "FP8 formats for deep learning", 2022): a tensor is scaled by its
// amax over the last 16 updates, so no measuring pass is needed before it is quantized. Owns the scales of all blocks
// (ops/fp8.h) and the amax history.
//
//   AmaxHistory history(blocks, slots, device);
//   for each step:
//     for each micro-batch, in a slot:
//       ... context.scales = history.begin(slot, b), context.scales_known = history.known(); forward of block b ...
//       ... context.scales = history.scales(slot, b); backward of block b ...
//     history.poison(sum);                                        // NaN where a magnitude is not finite
//     if (sum is finite on all ranks) history.record(update, data, tensor, compute); else history.skip();
//
// In the first step there is no history: tensors are measured before use, as with current scaling, and backward takes
// the scales of its own micro-batch. So each slot, a micro-batch between forward and backward, has scales of its own.
// Values that outgrow the headroom of their scale saturate; the next step's scale accounts for them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/device/stream.h"
#include "partita/nn/block.h"
#include "partita/ops/fp8.h"

namespace partita::internal {

class AmaxHistory {
 public:
  static constexpr int64_t kSteps = 16;

  // slots: micro-batches between forward and backward at the same time.
  AmaxHistory(std::span<const std::unique_ptr<Block>> blocks, int slots, at::Device);

  // [BlockTraits::fp8_scales, kFp8Scale] fp32; undefined where the block has none.
  [[nodiscard]] at::Tensor scales(int slot, int block) const {
    return of_block_[static_cast<size_t>(slot) * blocks_ + static_cast<size_t>(block)];
  }
  // Whether a step has been recorded, so that scales need not be measured before use.
  [[nodiscard]] bool known() const { return known_; }

  // The same, before the forward of a micro-batch. Until a step is recorded, clears the estimates of the previous one.
  [[nodiscard]] at::Tensor begin(int slot, int block);
  // sum [1] becomes NaN if any measured amax is not finite, which saturation would otherwise hide.
  void poison(at::Tensor sum) const;
  // Replaces the oldest entry with the step's amax, the maximum over the ranks of `data` and of `tensor`, the
  // tensor-parallel ranks, which is null if this rank computes whole blocks; equal on all ranks afterwards. update: the
  // number of steps less the skipped ones.
  void record(int64_t update, Communicator& data, Communicator* tensor, Stream& compute);
  // Discards the measurements of a skipped step.
  void skip();

  // [scale][update % kSteps], for checkpoints; empty before the first recorded step. set() restores them; an empty span
  // resets to the initial state.
  [[nodiscard]] std::vector<float> values() const;
  // Error: a size other than 0 or scales x kSteps.
  void set(std::span<const float>);

 private:
  // [slots, all blocks' scales]
  [[nodiscard]] at::Tensor expected() const { return scales_.select(2, kFp8Expected); }
  [[nodiscard]] at::Tensor measured() const { return scales_.select(2, kFp8Measured); }

  size_t blocks_;
  at::Tensor scales_;                 // [slots, all blocks' scales, kFp8Scale]
  at::Tensor history_;                // [all blocks' scales, kSteps]
  std::vector<at::Tensor> of_block_;  // [slot * blocks + block]
  bool known_ = false;
};

}  // namespace partita::internal
