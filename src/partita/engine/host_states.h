// Master weights and optimizer states kept and updated in host memory. New weights are copied to the device unit by
// unit, while the next unit is updated.
//
//   HostStates host(plan, {.master = DType::fp32, .weight = DType::bf16, .states = 2, .device = device}, copies);
//   ShardView{.master = host.master(u), .weight = host.weight(u), .states = host.states(u), ...}
//   for each trained unit u, in the order in which forward reads them:
//     updated[u] = host.update(u, slice, compute.record(), [=] { optimizer.step(view, norms, &now); });
//   for each trained unit u, in that order:
//     weights.publish(u, updated[u]);             // readers of the slice wait; a gather of the unit, immediately
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
    DType master = DType::fp32, weight = DType::fp32;  // equal: no separate master weights
    int states = 0;                                    // optimizer state tensors, in the dtype of master
    at::Device device = at::kCPU;
  };
  // For this rank's slices of units on the host. `copies` must outlive this object.
  HostStates(const UnitPlan&, const Options&, Copies& copies);

  [[nodiscard]] at::Tensor master(int unit) const { return units_[static_cast<size_t>(unit)].master; }
  [[nodiscard]] at::Tensor weight(int unit) const { return units_[static_cast<size_t>(unit)].weight; }
  [[nodiscard]] const std::vector<at::Tensor>& states(int unit) const {
    return units_[static_cast<size_t>(unit)].states;
  }

  // Queues `work`, which writes weight(unit), on a background thread, in FIFO order; the result is then copied to
  // `slice` on the device, once `after` has happened. Returns the event of that copy. `work` must own what it reads.
  [[nodiscard]] Event update(int unit, at::Tensor slice, const Event& after, std::function<void()> work);
  // Waits for all queued work and rethrows its errors.
  void finish();

  [[nodiscard]] int64_t bytes() const;

 private:
  struct UnitStates {
    at::Tensor master, weight;
    std::vector<at::Tensor> states;
    size_t staging = 0;  // staging buffer that holds `weight`
  };

  Copies& copies_;
  std::vector<UnitStates> units_;
  std::vector<at::Tensor> staging_;  // two, used in turn; none without separate master weights
  std::vector<Event> sent_;          // [staging], or [unit] without staging; used by the worker only
  std::vector<Event> given_;         // since finish
  Worker worker_;                    // last: stops before the members it uses are destroyed
};

}  // namespace partita::internal
