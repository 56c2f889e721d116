// Gradient slices in host memory: each is copied as soon as it is complete, overlapping the backward of later blocks.
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
  // Both must outlive this object.
  GradientOffload(const GradientPlan&, at::Device, Communicator& replica, Copies& copies);

  struct Sent {
    Event summed;  // reduced over the replicas: the slice may be read
    Event copied;  // the slice may be overwritten
  };
  // Reduces the unit's slice, complete on this rank's shard at `complete`, over the replicas and copies it to the host.
  [[nodiscard]] Sent send(int unit, const at::Tensor& slice, const Event& complete, Stream& communication);
  // Measures the squared norm of these runs of a slice that was sent, while it is still on the device.
  void measure(int unit, const at::Tensor& slice, std::span<const FlatRun> counted);

  [[nodiscard]] at::Tensor gradient(int unit) const { return host_[static_cast<size_t>(unit)]; }
  // Blocks the host until gradient(unit) has arrived.
  void await(int unit) const { arrived_[static_cast<size_t>(unit)].wait(); }
  // out [1] double: adds the sum of squares of all measured slices.
  void add_squares(at::Tensor out) const;

 private:
  Communicator& replica_;
  Copies& copies_;
  std::vector<at::Tensor> host_;  // [unit]
  std::vector<Event> arrived_;    // [unit]
  at::Tensor squares_;            // [units] double
};

}  // namespace partita::internal
