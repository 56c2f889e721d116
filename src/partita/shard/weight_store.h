// Where the weights come from: slots that hold the full weights of a unit, gathered when they do not.
//
//   WeightStore weights(plan, zero, {}, compute, side);
//   for (int b = 0; b < blocks; ++b) {
//     Weights w = weights.use(b, Pass::forward);      // gathers first if nobody has, then waits
//     weights.prefetch(b, Pass::forward);             // what comes after this block's units, under its compute
//     ... block(b).forward(w, ...) ...
//     weights.release(b, Pass::forward);
//   }
//   ... the optimizer rewrites slice(u) ...
//   weights.publish(u);
//
// The loop is the same at every stage. A slot knows which unit it holds in which version; `use` gathers only when that
// is not the one asked for. One thread issues everything, in the same order on every rank.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "partita/comm/stream.h"
#include "partita/shard/units.h"
#include "partita/shard/zero.h"

namespace partita {

enum class Pass : uint8_t { forward, backward };

class WeightStore {
 public:
  struct Options {
    bool poison = false;  // fill released slots with NaN
    at::Device device = at::kCPU;
    // [unit], or empty: this rank's slice of the master weights on the device. Where one is defined and the unit is gathered
    // for each use, its gathers round from there, and no slice in the weights' dtype is held beside it.
    std::vector<at::Tensor> masters;
  };
  // `plan` outlives the store. backward_reads[b]: whether block b reads weights in backward.
  WeightStore(const UnitPlan& plan, const Zero&, std::vector<bool> backward_reads, Options, Stream& compute,
              Stream& side);

  // The weights of the block, in the order of its parameters. Valid until release.
  [[nodiscard]] std::span<const at::Tensor> use(int block, Pass);
  void prefetch(int block, Pass);
  void release(int block, Pass);

  // This rank's slice of the unit, in the weights' dtype: what the optimizer writes before publish. Undefined where gathers
  // round from the master weights.
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

  void ensure(int unit);  // holds it in its present version, or is being filled with it
  void gather(int unit, Slot&);
  // This rank's part of what the slot holds.
  [[nodiscard]] at::Tensor own_part(int unit, const Slot&) const;
  [[nodiscard]] bool gathers(int unit) const;  // its slice lies outside its slot, or there are other ranks
  [[nodiscard]] Slot& slot(int unit) {
    return slots_[static_cast<size_t>(slot_plan_.slot_of_unit[static_cast<size_t>(unit)])];
  }
  [[nodiscard]] bool stays(int unit, Pass) const;

  const UnitPlan& plan_;
  Zero zero_;
  SlotPlan slot_plan_;
  std::vector<bool> backward_reads_;
  Options options_;
  Stream &compute_, &side_;
  std::vector<Slot> slots_;
  std::vector<at::Tensor> slices_;
  // [unit]: the lowest block that reads it in backward, -1 if none does: a tied table's is the head, and below the first
  // trained block there is no backward.
  std::vector<int> last_reader_;
  std::vector<Event> written_;                  // [unit]: its slice
  std::vector<int64_t> versions_;               // [unit]
  std::vector<std::vector<at::Tensor>> views_;  // [block][parameter], made once
};

}  // namespace partita
