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
// With `copies` slices leave for host memory as soon as they are complete, under the backward of the next blocks: gradient(u)
// lies there. With one micro-batch a step layers then share two buffers whatever the stage, since nobody adds to them later.
//
// The first writer of a parameter since its buffer was taken overwrites, later ones add: nothing is filled with zeros but
// padding and what nobody wrote.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "partita/comm/copies.h"
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
    Copies* copies = nullptr;  // not null: slices leave for host memory; outlives the store
  };
  GradStore(const UnitPlan& plan, const Zero&, Options, Stream& compute, Stream& side);

  [[nodiscard]] std::unique_ptr<Grads> open(int block);
  void close(int block, bool last_micro_batch);
  void finish();

  // This rank's slice of the sum over all ranks and micro-batches, in the unit's gradient_sum, or, where the buffer itself is
  // the slice, as it was written. Valid from finish until memory that was given is used by others, or the next open.
  // Undefined for a frozen unit.
  [[nodiscard]] at::Tensor gradient(int unit) const {
    const UnitState& state = states_[static_cast<size_t>(unit)];
    return options_.copies != nullptr ? state.host : state.slice;
  }
  // Of slices that leave: the host waits until gradient(unit) is there. After finish.
  void await(int unit) const { states_[static_cast<size_t>(unit)].arrived.wait(); }
  // Of this rank's slices, or zero where another rank of `replica` counts them: summed over all data-parallel ranks it is
  // the squared norm of the gradient, every element once.
  void sum_of_squares(at::Tensor out) const;

  [[nodiscard]] int64_t bytes() const;                              // of buffers, slices and what arrives, on this rank
  [[nodiscard]] int64_t host_bytes() const;                         // of slices that left
  [[nodiscard]] int64_t reductions() const { return reductions_; }  // begun so far

 private:
  class BlockGrads;
  struct UnitState {
    at::Tensor slice;               // on the device; of slices that leave, where they are put together
    at::Tensor host;                // of slices that leave
    Event arrived;                  // in `host`
    std::vector<at::Tensor> views;  // of each parameter, in the buffer
    std::vector<bool> written;      // since the buffer was taken
    bool taken = false;             // the buffer is this unit's
    bool in_slice = false;          // the slice holds reductions of this step
  };
  struct Slot {
    at::Tensor buffer, arriving;  // arriving: fp32 slice of a reduction that is added to the slice
    int unit = -1;
    bool pending = false;
    bool add = false;   // pending: into `arriving`, then added
    bool last = false;  // pending: of the step; the slice then leaves, where slices do
    Event reduced;
    Event copied;  // the last slice that left from here
  };

  [[nodiscard]] bool trainable(int unit) const { return plan_.units[static_cast<size_t>(unit)].trainable; }
  void take(int unit);
  void reduce(int unit, bool last);
  void leave(int unit, const Event& complete);
  void settle(Slot&);
  [[nodiscard]] bool leaves() const { return options_.copies != nullptr; }
  [[nodiscard]] Slot& slot(int unit) {
    return slots_[static_cast<size_t>(slot_plan_.slot_of_unit[static_cast<size_t>(unit)])];
  }

  const UnitPlan& plan_;
  Zero zero_;
  Options options_;
  bool shared_;  // layers share two buffers
  SlotPlan slot_plan_;
  Stream &compute_, &side_;
  std::vector<Slot> slots_;
  std::vector<UnitState> states_;
  at::Tensor squares_;  // [units] double: of slices that left
  int64_t reductions_ = 0;
};

}  // namespace partita
