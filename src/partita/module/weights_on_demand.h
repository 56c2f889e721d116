// ZeRO-3 for modules whose code is the user's: full weights exist while operations read them. A unit's parameters are
// views of a storage that gets memory, gathered from the ranks' slices, when an operation has one of them among its
// operands, and loses it when others are used (unit_residency.h).
//
//   WeightsOnDemand weights(plan, store, device, leaving, shard, compute);
//   set_data(parameter, weights.parameter(unit, index, parameter));
//   ... forward, backward ...
//   weights.evict_all();                   // before the slices are updated
//   weights.end_step();
//
// All ranks must use the parameters in the same order: gathers are collective. Operations may run on any stream:
// `compute` is ordered with it.
#pragma once
#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "partita/module/caller_stream.h"
#include "partita/module/operand_watch.h"
#include "partita/module/unit_residency.h"
#include "partita/shard/weight_store.h"

namespace partita::internal {

class WeightsOnDemand {
 public:
  // Called with the full weights of a unit, a tensor for each parameter, before they are given up, if an operation has
  // written into them.
  using Leaving = std::function<void(int unit, std::span<const at::Tensor> parameters)>;
  // All must outlive this object; `compute` is the current stream. `store` gathers on demand
  // (WeightStore::Options::on_demand) from the ranks of `shard`.
  WeightsOnDemand(const UnitPlan&, WeightStore& store, at::Device, Leaving, Communicator& shard, Stream& compute);
  // Parameters have no memory from then on.
  ~WeightsOnDemand();
  WeightsOnDemand(const WeightsOnDemand&) = delete;
  WeightsOnDemand& operator=(const WeightsOnDemand&) = delete;

  // What a parameter's data becomes.
  [[nodiscard]] at::Tensor parameter(int unit, int index, const at::Tensor& like) const;
  void evict_all();
  void end_step() { residency_.end_step(); }

  // A number for the sequence of units that were gathered: the same on ranks that used them in the same order.
  [[nodiscard]] uint64_t order() const { return order_; }
  [[nodiscard]] int64_t bytes() const;  // of full weights, and of memory that is kept for them

 private:
  struct Memory {
    at::Tensor buffer;  // undefined: none
    Event event;        // of a unit: gathered; of free memory: no longer read
    bool kept = false;  // for other units, in memory that ranks share
    bool awaited = false;
    bool written = false;
  };
  void use(std::span<const int> units);
  void release(std::span<const int> used, std::span<const int> written);
  void act(const std::vector<UnitResidency::Action>&);
  // stays: false if the operation uses more units than are held, and this one leaves first.
  void gather(int unit, bool stays);
  void evict(int unit);
  [[nodiscard]] int64_t kept_count() const;
  [[nodiscard]] Memory memory_for(const Unit&, bool stays);

  const UnitPlan& plan_;
  WeightStore& store_;
  at::Device device_;
  Leaving leaving_;
  Communicator& shard_;
  Stream& compute_;
  CallerStream caller_;
  UnitResidency residency_;
  std::vector<Memory> units_;  // [unit]
  int64_t kept_count_;         // elements of memory that is kept
  std::deque<Memory> free_;    // kept
  int kept_ = 0;               // free or of a unit
  uint64_t order_ = 0;
  bool failed_ = false;
  std::vector<c10::Storage> storages_;  // [unit]
  OperandWatch watch_;                  // first to go
};

}  // namespace partita::internal
