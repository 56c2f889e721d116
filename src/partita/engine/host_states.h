// Master weights and optimizer states in host memory, updated there: the device gets the new weights, a unit at a time,
// while the next unit is updated.
//
//   HostStates host(plan, {.master = DType::fp32, .weight = DType::bf16, .states = 2, .device = device}, copies);
//   ShardView{.master = host.master(u), .weight = host.weight(u), .states = host.states(u), ...}
//   for each trained unit u, in the order in which forward reads them:
//     updated[u] = host.update(u, slice, compute.record(), [=] { optimizer.step(view, norms, &now); });
//   for each trained unit u, in that order:
//     weights.publish(u, updated[u]);             // whoever reads the slice waits for it, a gather of the unit at once
//   ...
//   host.finish();                                     // before master weights and states are read elsewhere
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/worker.h"
#include "partita/shard/units.h"

namespace partita::internal {

class HostStates {
 public:
  struct Options {
    DType master = DType::fp32, weight = DType::fp32;  // equal: the master weights are the weights
    int states = 0;                                    // of the optimizer, in the dtype of master
    at::Device device = at::kCPU;
  };
  // For this rank's slices of what is trained. `copies` outlives it.
  HostStates(const UnitPlan&, const Options&, Copies& copies);

  [[nodiscard]] at::Tensor master(int unit) const { return units_[static_cast<size_t>(unit)].master; }
  [[nodiscard]] at::Tensor weight(int unit) const { return units_[static_cast<size_t>(unit)].weight; }
  [[nodiscard]] const std::vector<at::Tensor>& states(int unit) const {
    return units_[static_cast<size_t>(unit)].states;
  }

  // `work` writes weight(unit), in a thread of its own behind the work given before; then it goes to `slice` on the
  // device, once `after` has happened. The event: it is there. `work` keeps what it reads alive by itself.
  [[nodiscard]] Event update(int unit, at::Tensor slice, const Event& after, std::function<void()> work);
  // Waits for all work that was given. Errors: those of the work.
  void finish();

  [[nodiscard]] int64_t bytes() const;

 private:
  struct UnitStates {
    at::Tensor master, weight;
    std::vector<at::Tensor> states;
    size_t staging = 0;  // whose turn it is to hold `weight`
  };

  Copies& copies_;
  std::vector<UnitStates> units_;
  std::vector<at::Tensor> staging_;  // two, used in turn; none where master weights are the weights
  std::vector<Event> sent_;          // [staging], or [unit] where there is none; of the worker
  std::vector<Event> given_;         // since finish
  Worker worker_;                    // last: it ends before what it works on
};

}  // namespace partita::internal
