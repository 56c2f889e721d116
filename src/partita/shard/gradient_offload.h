// Slices of gradients in host memory: each is copied there as soon as it is complete, under the backward of later
// blocks.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/comm/communicator.h"
#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/shard/gradient_plan.h"

namespace partita::internal {

class GradientOffload {
 public:
  // Both outlive it.
  GradientOffload(const GradientPlan&, at::Device, Communicator& replica, Copies& copies);

  struct Sent {
    Event summed;  // over the replicas: the slice may be read
    Event copied;  // the slice may be overwritten
  };
  // The slice of the unit, complete on this rank's shard at `complete`, is summed over the replicas and copied.
  [[nodiscard]] Sent send(int unit, const at::Tensor& slice, const Event& complete, Stream& communication);
  // Of a slice that was sent, while it is on the device.
  void measure(int unit, const at::Tensor& slice);

  [[nodiscard]] at::Tensor gradient(int unit) const { return host_[static_cast<size_t>(unit)]; }
  // The host waits until gradient(unit) is there.
  void await(int unit) const { arrived_[static_cast<size_t>(unit)].wait(); }
  // [1] double: adds the sum of squares of what was measured.
  void add_squares(at::Tensor out) const;

 private:
  Communicator& replica_;
  Copies& copies_;
  std::vector<at::Tensor> host_;  // [unit]
  std::vector<Event> arrived_;    // [unit]
  at::Tensor squares_;            // [units] double
};

}  // namespace partita::internal
