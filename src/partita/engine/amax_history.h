// Delayed scaling of tensors in 8 bits (P. Micikevicius et al., "FP8 formats for deep learning", 2022): a tensor is
// scaled by the largest magnitude that it had in the last 16 updates, so that nothing is measured before it is used.
// The blocks' scales lie here (ops/fp8.h), and what each step measured.
//
//   AmaxHistory history(blocks, device);
//   for each step:
//     for each micro-batch:
//       history.begin();
//       ... context.scales = history.scales(b), context.scales_known = history.known(); forward, backward ...
//     history.poison(sum);                                        // NaN where a magnitude is not finite
//     if (sum is finite on all ranks) history.record(update, data, compute); else history.skip();
//
// In the first step nothing is known: tensors are measured before they are used, as with current scaling. What grows by
// more than the scale leaves room for is rounded to the last value in range, and seen by the next step.
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

  AmaxHistory(std::span<const std::unique_ptr<Block>> blocks, at::Device);

  // [BlockTraits::fp8_scales, kFp8Scale] fp32; undefined where the block has none.
  [[nodiscard]] at::Tensor scales(int block) const { return of_block_[static_cast<size_t>(block)]; }
  // Whether some step was recorded: scales need not be measured anew.
  [[nodiscard]] bool known() const { return known_; }

  // Before each micro-batch: while nothing is known, what the one before expected is forgotten.
  void begin();
  // sum [1] becomes NaN where a measured magnitude is not finite: that of a value that was rounded into range.
  void poison(at::Tensor sum) const;
  // What the step measured, on any of the ranks of `data`, takes the place of the oldest. Equal on all ranks
  // thereafter. update: the number of steps less the skipped ones.
  void record(int64_t update, Communicator& data, Stream& compute);
  // The step was skipped: what it measured is forgotten.
  void skip();

  // [scale][update % kSteps], to be kept with the weights; empty while nothing is known. set() continues from them,
  // from none as at the start.
  [[nodiscard]] std::vector<float> values() const;
  // Error: neither none nor one for each scale and step.
  void set(std::span<const float>);

 private:
  [[nodiscard]] at::Tensor expected() const { return scales_.select(1, kFp8Expected); }
  [[nodiscard]] at::Tensor measured() const;

  at::Tensor scales_;   // [all blocks' scales, kFp8Scale]
  at::Tensor history_;  // [all blocks' scales, kSteps]
  std::vector<at::Tensor> of_block_;
  bool known_ = false;
};

}  // namespace partita::internal
