// Gradient storage: full buffers that blocks write, reduced over the ranks into slices.
//
//   GradientStore gradients(plan, zero, {.micro_batches = 4}, compute, communication);
//   for each micro-batch:
//     for (int b = blocks - 1; b >= 0; --b) {
//       auto open = gradients.open(b);
//       ... block(b).backward(..., *open) ...
//       gradients.close(b, last_micro_batch);          // reduces units whose last writer this was
//     }
//   gradients.finish();                                // all gradients are reduced into gradient(u)
//   gradients.sum_of_squares(squares);
//
// shard/gradient_plan.h defines the three kinds of reduction and where slices are stored. With shared slots, the first
// writer of a unit acquires the slot, after finishing the reduction of the slot's previous unit, which ran under the
// backward of the blocks in between.
//
// The first write to a parameter after its buffer is acquired overwrites; later ones accumulate. Only padding and
// unwritten parameters are zero-filled.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/nn/grads.h"
#include "partita/shard/gradient_offload.h"
#include "partita/shard/gradient_plan.h"
#include "partita/shard/unit_squares.h"
#include "partita/shard/zero.h"

namespace partita::internal {

class GradientStore {
 public:
  struct Options {
    int micro_batches = 1;
    bool poison = false;  // fill fresh buffers with NaN
    at::Device device = at::kCPU;
    // [unit]: byte tensors for full gradients and slices; undefined or empty: allocated here.
    std::vector<at::Tensor> buffers, slices;
    // Slices with memory of their own have it only from their first reduction of a step to release or drop.
    bool transient_slices = false;
    Copies* copies = nullptr;  // for slices of units on the host; null: there are none. Must outlive the store
    // Not null: computes each unit's squared norm as soon as its reduction is complete, under the backward pass of
    // other units. finish() does not wait for it: whoever writes gradients again must. Must outlive the store.
    Stream* norm_stream = nullptr;
  };
  GradientStore(const UnitPlan& plan, const Zero&, Options, Stream& compute, Stream& communication);

  [[nodiscard]] std::unique_ptr<Grads> open(int block);
  void close(int block, bool last_micro_batch);
  void finish();
  // Forgets what was written and reduced since the last finish, waiting for what is on its way; releases all.
  void drop();
  // After finish and sum_of_squares: gives a transient slice back, once the current stream has read it. Of a unit on
  // the host: once it has arrived.
  void release(int unit);

  // This rank's slice of the gradient summed over all ranks and micro-batches. Valid from finish until the next open,
  // or until memory that was passed in is reused. Undefined for frozen units, and for transient slices that are not
  // there.
  [[nodiscard]] at::Tensor gradient(int unit) const {
    return on_host(unit) ? offload_->gradient(unit) : units_[static_cast<size_t>(unit)].slice;
  }
  // When gradient(unit) has arrived, once it is sent; at once if the unit is not on the host.
  [[nodiscard]] Event arrived(int unit) const { return on_host(unit) ? offload_->arrived(unit) : Event(); }
  // Units on the host whose whole gradient has been sent since the last call.
  [[nodiscard]] std::vector<int> take_sent() { return std::exchange(sent_, {}); }
  // After finish: adds the squared norm of what this rank counts of its slices: summed over all data-parallel and
  // tensor-parallel ranks, the squared gradient norm with every element counted once.
  void sum_of_squares(at::Tensor out) const;
  // The elements whose squares sum_of_squares adds; of units on the host in host memory, where they have arrived.
  [[nodiscard]] std::vector<at::Tensor> counted_slices() const;

  [[nodiscard]] int64_t bytes() const;  // buffers, slices and receive buffers on the device; all transient slices
  [[nodiscard]] int64_t host_bytes() const { return offload_ ? offload_->bytes() : 0; }

 private:
  class BlockGrads;
  struct SharedGradient {  // held by several tensor-parallel ranks, each with a partial sum
    FlatRun run;
    Communicator* holders;
  };
  struct UnitGradient {
    at::Tensor slice;              // on the device
    std::vector<FlatRun> counted;  // of the slice: what this rank counts in the norm
    std::vector<SharedGradient> shared;
    std::vector<at::Tensor> views;  // of each parameter, in the full buffer
    std::vector<bool> written;      // [parameter]: written since the buffer was acquired
    bool acquired = false;          // this unit owns the slot's buffer
    bool has_partial_sum = false;   // the slice holds a reduction of this step
    bool measured = false;          // squares_ has this step's
    bool sent = false;              // to the host, or on its way there
  };
  struct Slot {
    at::Tensor buffer, receive_buffer;
    int unit = -1;
    bool reducing = false;  // a reduction is pending until finish_reduction
    bool add = false;       // the reduction goes to receive_buffer, to be added to the slice
    bool complete = false;  // it is the last reduction of the step
    Event reduced;
    Event copied;  // the last copy of a slice from this slot to the host
  };

  [[nodiscard]] bool trainable(int unit) const { return plan_.units[static_cast<size_t>(unit)].trainable; }
  [[nodiscard]] bool on_host(int unit) const { return gradients_.on_host[static_cast<size_t>(unit)]; }
  [[nodiscard]] bool adds_on_host(int unit) const { return gradients_.adds_on_host[static_cast<size_t>(unit)]; }
  [[nodiscard]] bool held_by_two_stages(int unit) const {
    return plan_.units[static_cast<size_t>(unit)].stage_copy != ParameterSpec::Copy::none;
  }
  // Leaves the device when it is reduced; a table that two stages hold, when their gradients are added.
  [[nodiscard]] bool leaves_at_once(int unit) const { return on_host(unit) && !held_by_two_stages(unit); }
  [[nodiscard]] at::Tensor make_buffer(size_t unit, size_t slot) const;
  [[nodiscard]] at::Tensor make_slice(size_t unit) const;
  void acquire(int unit);
  void reduce(int unit, bool last);
  [[nodiscard]] Communicator* holders_of(const SharedRun&) const;
  void sum_shared(const UnitGradient&, const at::Tensor& full);
  void send(int unit, const Event& complete, bool last);
  void finish_reduction(Slot&);
  // Whether nothing is added to the unit's slice after its last reduction.
  [[nodiscard]] bool final_when_reduced(int unit) const;
  void measure(int unit);
  void measure_early(int unit, const Event& complete);
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
  UnitSquares squares_;
  std::vector<int> sent_;                     // see take_sent
  std::unique_ptr<GradientOffload> offload_;  // null: all slices stay on the device
};

}  // namespace partita::internal
