// Where the gradients go: full buffers that blocks write, reduced over the ranks into slices.
//
//   GradStore grads(plan, zero, {.micro_batches = 4}, compute, side);
//   for each micro-batch:
//     for (int b = blocks - 1; b >= 0; --b) {
//       auto open = grads.open(b);
//       ... block(b).backward(..., *open) ...
//       grads.close(b, last_micro_batch);            // reduces a unit after its last writer
//     }
//   grads.finish();                                  // every reduction is in gradient(u)
//   grads.sum_of_squares(squares);
//
// Few gradients (stages 2, 3): layers share two buffers; each micro-batch's gradients are reduced as soon as the unit is
// complete, under the backward of the next blocks, and added to the slice. Else every unit keeps its buffer, micro-batches
// add up there, and it is reduced in the last one.
//
// The first writer of a parameter since its buffer was taken overwrites, later ones add: nothing is filled with zeros but
// padding and what nobody wrote.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "partita/comm/stream.h"
#include "partita/shard/grads.h"
#include "partita/shard/units.h"
#include "partita/shard/zero.h"

namespace partita {

class GradStore {
 public:
  struct Options {
    int micro_batches = 1;
    bool poison = false;  // fill fresh buffers with NaN
    at::Device device = at::kCPU;
    // [unit]: memory in bytes for whole gradients and for slices; undefined, or none at all: allocated here.
    std::vector<at::Tensor> buffers, slices;
  };
  GradStore(const UnitPlan& plan, const Zero&, Options, Stream& compute, Stream& side);

  [[nodiscard]] std::unique_ptr<Grads> open(int block);
  void close(int block, bool last_micro_batch);
  void finish();

  // This rank's slice of the sum over all ranks and micro-batches, in the unit's gradient_sum, or, where the buffer itself is
  // the slice, as it was written. Valid from finish until memory that was given is used by others, or the next open.
  // Undefined for a frozen unit.
  [[nodiscard]] at::Tensor gradient(int unit) const { return states_[static_cast<size_t>(unit)].slice; }
  // Of this rank's slices, or zero where another rank of `replica` counts them: summed over all data-parallel ranks it is
  // the squared norm of the gradient, every element once.
  void sum_of_squares(at::Tensor out) const;

  [[nodiscard]] int64_t bytes() const;                              // of buffers, slices and what arrives, on this rank
  [[nodiscard]] int64_t reductions() const { return reductions_; }  // begun so far

 private:
  class BlockGrads;
  struct UnitState {
    at::Tensor slice;
    std::vector<at::Tensor> views;  // of each parameter, in the buffer
    std::vector<bool> written;      // since the buffer was taken
    bool taken = false;             // the buffer is this unit's
    bool in_slice = false;          // the slice holds reductions of this step
  };
  struct Slot {
    at::Tensor buffer, arriving;  // arriving: fp32 slice of a reduction that is added to the slice
    int unit = -1;
    bool pending = false;
    bool add = false;  // pending: into `arriving`, then added
    Event reduced;
  };

  [[nodiscard]] bool trainable(int unit) const { return plan_.units[static_cast<size_t>(unit)].trainable; }
  void take(int unit);
  void reduce(int unit);
  void settle(Slot&);
  [[nodiscard]] Slot& slot(int unit) {
    return slots_[static_cast<size_t>(slot_plan_.slot_of_unit[static_cast<size_t>(unit)])];
  }

  const UnitPlan& plan_;
  Zero zero_;
  SlotPlan slot_plan_;
  Options options_;
  Stream &compute_, &side_;
  std::vector<Slot> slots_;
  std::vector<UnitState> states_;
  int64_t reductions_ = 0;
};

}  // namespace partita
