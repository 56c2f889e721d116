// Weight storage: slots that hold the full weights of a unit, gathered on demand.
//
//   WeightStore weights(plan, zero, {}, compute, communication);
//   weights.begin(uses);                              // from plan_uses
//   for each use, in order:
//     Weights w = weights.use(block, pass);           // waits for the gather, starting it if necessary
//     weights.prefetch();                             // gathers for the next blocks, under this block's compute
//     ... block.forward(w, ...) ...
//     weights.release();
//   ... the optimizer rewrites slice(u) ...
//   weights.publish(u);
//
// The loop is the same at every ZeRO stage. A slot knows which version of which unit it holds; `use` gathers only on a
// mismatch. One thread issues all work, in the same order on every rank.
//
// Synchronization of a slot: a gather on the communication stream waits for `free`, the last compute that read the
// slot, and for the update of the unit's slice; compute waits for `ready`, the gather.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/shard/slots.h"
#include "partita/shard/use_plan.h"
#include "partita/shard/weights_off_device.h"
#include "partita/shard/zero.h"

namespace partita::internal {

class WeightStore {
 public:
  struct Options {
    bool poison = false;  // fill evicted slots with NaN
    at::Device device = at::kCPU;
    // [unit], or empty: this rank's slice of the master weights on the device. If defined and the unit is gathered for
    // each use, gathers round the master weights, and no slice in the weight dtype is stored.
    std::vector<at::Tensor> masters;
    bool on_demand = false;             // no slots: gather() instead of begin to release
    Copies* copies = nullptr;           // for units whose weights are off the device. Must outlive the store
    std::filesystem::path disk_folder;  // of units whose weights are on disk
  };
  // `plan` must outlive the store.
  WeightStore(const UnitPlan& plan, const Zero&, Options, Stream& compute, Stream& communication);

  // Starts a pass over the plan, which must remain valid until its last use.
  void begin(const UsePlan&);
  // The next use of the plan: the weights of the block, in the order of its parameters. Valid until release.
  [[nodiscard]] std::span<const at::Tensor> use(int block, Pass);
  void prefetch();
  void release();

  // With on_demand: gathers the current weights of a unit into the first layout.count elements of `memory`, once it is
  // `free`; the event is their arrival. Collective.
  [[nodiscard]] Event gather(int unit, const at::Tensor& memory, const Event& free);

  // This rank's slice of the unit in the weight dtype, written by the optimizer before publish: in host memory if the
  // unit's weights are off the device. Undefined if gathers read the master weights.
  [[nodiscard]] at::Tensor slice(int unit) const { return slices_[static_cast<size_t>(unit)]; }
  // Every rank's slice was rewritten: invalidates the slot's copy. An unshared slot is gathered right away, under
  // whatever follows.
  void publish(int unit) { publish(unit, compute_.record()); }
  // The same if the slice is written outside the compute stream, such as by a copy that completes at `written`.
  void publish(int unit, const Event& written);

  // Waits for gathers that nobody has used, so that the memory may be given back.
  void finish() const;

  [[nodiscard]] int64_t bytes() const;  // slots and slices on this rank's device
  [[nodiscard]] int64_t host_bytes() const { return off_device_ ? off_device_->host_bytes() : 0; }
  [[nodiscard]] int64_t disk_bytes() const { return off_device_ ? off_device_->disk_bytes() : 0; }

 private:
  struct Slot {
    at::Tensor buffer;
    int unit = -1;  // the unit held or being gathered
    int64_t version = -1;
    Event ready;  // the gather is complete
    Event free;   // the last compute that reads the slot is complete
  };

  [[nodiscard]] const UsePlan::Turn& turn() const;
  [[nodiscard]] at::Tensor make_buffer(size_t slot) const;
  // Whether the slot has, or is about to have, the current version.
  [[nodiscard]] bool holds(int unit) const;
  void ensure(int unit);  // its gather is issued unless the slot holds it
  void gather(int unit, Slot&);
  // The slice, in its part of `memory`.
  [[nodiscard]] Event fetch(int unit, const at::Tensor& memory, const Event& free);
  // This rank's slice of a buffer that holds the unit.
  [[nodiscard]] at::Tensor own_part(int unit, const at::Tensor& buffer) const;
  [[nodiscard]] bool slice_in_slot(size_t unit) const {
    return !is_gathered_for_use(plan_.units[unit], zero_.sharding);
  }
  [[nodiscard]] StatesPlace place(int unit) const { return plan_.units[static_cast<size_t>(unit)].weights; }
  [[nodiscard]] Slot& slot(int unit) {
    return slots_[static_cast<size_t>(slot_plan_.slot_of_unit[static_cast<size_t>(unit)])];
  }

  const UnitPlan& plan_;
  Zero zero_;
  SlotPlan slot_plan_;
  Options options_;
  Stream &compute_, &communication_;
  const UsePlan* uses_ = nullptr;
  size_t next_ = 0;  // index in uses_
  int times_ = 0;    // remaining repetitions of the head
  std::vector<Slot> slots_;
  std::vector<at::Tensor> slices_;
  std::vector<Event> written_;                    // [unit]: its slice was written
  std::vector<int64_t> versions_;                 // [unit]
  std::vector<std::vector<at::Tensor>> views_;    // [block][parameter], made once
  std::unique_ptr<WeightsOffDevice> off_device_;  // null: all weights are on the device
};

}  // namespace partita::internal
