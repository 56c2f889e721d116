// Where the gradients go: full buffers that blocks write, reduced over the ranks into slices.
//
//   GradientStore gradients(plan, zero, {.micro_batches = 4}, compute, communication);
//   for each micro-batch:
//     for (int b = blocks - 1; b >= 0; --b) {
//       auto open = gradients.open(b);
//       ... block(b).backward(..., *open) ...
//       gradients.close(b, last_micro_batch);          // reduces a unit after its last writer
//     }
//   gradients.finish();                                // every reduction is in gradient(u)
//   gradients.sum_of_squares(squares);
//
// shard/gradient_plan.h says which of three ways a unit's gradient takes to its slice, and where the slice is. With
// shared slots a unit's buffer is acquired by its first writer, and the reduction of the unit that had it before is
// finished first, under the backward of the blocks in between.
//
// The first writer of a parameter since its buffer was acquired overwrites, later ones add: nothing is filled with
// zeros but padding and what nobody wrote.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/nn/grads.h"
#include "partita/shard/gradient_offload.h"
#include "partita/shard/gradient_plan.h"
#include "partita/shard/zero.h"

namespace partita::internal {

class GradientStore {
 public:
  struct Options {
    int micro_batches = 1;
    bool poison = false;  // fill fresh buffers with NaN
    at::Device device = at::kCPU;
    // [unit]: memory in bytes for full gradients and for slices; undefined, or none at all: allocated here.
    std::vector<at::Tensor> buffers, slices;
    Copies* copies = nullptr;  // not null: slices leave for host memory; outlives the store
  };
  GradientStore(const UnitPlan& plan, const Zero&, Options, Stream& compute, Stream& communication);

  [[nodiscard]] std::unique_ptr<Grads> open(int block);
  void close(int block, bool last_micro_batch);
  void finish();

  // This rank's slice of the sum over all ranks and micro-batches. Valid from finish until memory that was given is
  // used by others, or the next open. Undefined for a frozen unit.
  [[nodiscard]] at::Tensor gradient(int unit) const {
    return offload_ ? offload_->gradient(unit) : units_[static_cast<size_t>(unit)].slice;
  }
  // With offload: the host waits until gradient(unit) is there. After finish.
  void await(int unit) const { offload_->await(unit); }
  // Of this rank's slices, or zero where another rank of `replica` counts them: summed over all data-parallel ranks it
  // is the squared norm of the gradient, every element once.
  void sum_of_squares(at::Tensor out) const;

  [[nodiscard]] int64_t bytes() const;       // of buffers, slices and receive buffers, on the device
  [[nodiscard]] int64_t host_bytes() const;  // of slices that left

 private:
  class BlockGrads;
  struct UnitGradient {
    at::Tensor slice;               // on the device
    std::vector<at::Tensor> views;  // of each parameter, in the full buffer
    std::vector<bool> written;      // [parameter]: since the buffer was acquired
    bool acquired = false;          // the buffer is this unit's
    bool has_partial_sum = false;   // the slice holds reductions of this step
  };
  struct Slot {
    at::Tensor buffer, receive_buffer;
    int unit = -1;
    bool reducing = false;  // until finish_reduction
    bool add = false;       // what is reduced comes into receive_buffer and is added to the slice
    bool complete = false;  // it is the last reduction of the step
    Event reduced;
    Event copied;  // the last slice that left from here
  };

  [[nodiscard]] bool trainable(int unit) const { return plan_.units[static_cast<size_t>(unit)].trainable; }
  void acquire(int unit);
  void reduce(int unit, bool last);
  void send(int unit, const Event& complete);
  void finish_reduction(Slot&);
  [[nodiscard]] Slot& slot(int unit) {
    return slots_[static_cast<size_t>(gradients_.slots.slot_of_unit[static_cast<size_t>(unit)])];
  }

  const UnitPlan& plan_;
  Zero zero_;
  Options options_;
  GradientPlan gradients_;
  Stream &compute_, &communication_;
  std::vector<Slot> slots_;
  std::vector<UnitGradient> units_;
  std::unique_ptr<GradientOffload> offload_;  // null: slices stay on the device
};

}  // namespace partita::internal
