// Where the weights come from: slots that hold the full weights of a unit, gathered when they do not.
//
//   WeightStore weights(plan, zero, {}, compute, communication);
//   weights.begin(uses);                              // plan_uses: who comes when
//   for each of them, in order:
//     Weights w = weights.use(block, pass);           // gathers first if nobody has, then waits
//     weights.prefetch();                             // what the next blocks need, under this block's compute
//     ... block.forward(w, ...) ...
//     weights.release();
//   ... the optimizer rewrites slice(u) ...
//   weights.publish(u);
//
// The loop is the same at every ZeRO stage. A slot knows which unit it holds in which version; `use` gathers only when
// that is not the one asked for. One thread issues everything, in the same order on every rank.
//
// Life of a slot: a gather on the communication stream waits for `free`, the last compute that read what the slot held,
// and for the rewriting of the unit's slice; compute waits for `ready`, the gather.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "partita/device/stream.h"
#include "partita/shard/slots.h"
#include "partita/shard/use_plan.h"
#include "partita/shard/zero.h"

namespace partita::internal {

class WeightStore {
 public:
  struct Options {
    bool poison = false;  // fill evicted slots with NaN
    at::Device device = at::kCPU;
    // [unit], or empty: this rank's slice of the master weights on the device. Where one is defined and the unit is
    // gathered for each use, its gathers round from there, and there is no slice in the weights' dtype.
    std::vector<at::Tensor> masters;
  };
  // `plan` outlives the store.
  WeightStore(const UnitPlan& plan, const Zero&, Options, Stream& compute, Stream& communication);

  // The uses that follow, from the first on; outlives them.
  void begin(const UsePlan&);
  // The next of them: the weights of the block, in the order of its parameters. Valid until release.
  [[nodiscard]] std::span<const at::Tensor> use(int block, Pass);
  void prefetch();
  void release();

  // This rank's slice of the unit, in the weights' dtype: what the optimizer writes before publish. Undefined where
  // gathers round from the master weights.
  [[nodiscard]] at::Tensor slice(int unit) const { return slices_[static_cast<size_t>(unit)]; }
  // Every rank's slice was rewritten: what slots hold of the unit is old. A slot of its own is gathered now, under
  // whatever follows.
  void publish(int unit) { publish(unit, compute_.record()); }
  // The same by other work than compute's, such as a copy, which is done at `written`.
  void publish(int unit, const Event& written);

  [[nodiscard]] int64_t bytes() const;  // of slots and slices on this rank

 private:
  struct Slot {
    at::Tensor buffer;
    int unit = -1;  // what it holds or is being filled with
    int64_t version = -1;
    Event ready;  // its gather
    Event free;   // the last compute that read it
  };

  [[nodiscard]] const UsePlan::Turn& turn() const;
  void ensure(int unit);  // holds it in its present version, or is being filled with it
  void gather(int unit, Slot&);
  // This rank's part of what the slot holds.
  [[nodiscard]] at::Tensor own_part(int unit, const Slot&) const;
  [[nodiscard]] bool slice_in_slot(size_t unit) const {
    return !zero_.sharding.weights || plan_.units[unit].pool == BufferPool::persistent;
  }
  [[nodiscard]] Slot& slot(int unit) {
    return slots_[static_cast<size_t>(slot_plan_.slot_of_unit[static_cast<size_t>(unit)])];
  }

  const UnitPlan& plan_;
  Zero zero_;
  SlotPlan slot_plan_;
  Options options_;
  Stream &compute_, &communication_;
  const UsePlan* uses_ = nullptr;
  size_t next_ = 0;  // of uses_
  int times_ = 0;    // that the head of uses_ still comes again
  std::vector<Slot> slots_;
  std::vector<at::Tensor> slices_;
  std::vector<Event> written_;                  // [unit]: its slice
  std::vector<int64_t> versions_;               // [unit]
  std::vector<std::vector<at::Tensor>> views_;  // [block][parameter], made once
};

}  // namespace partita::internal
