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
  // Copies a slice that is complete on all ranks.
  [[nodiscard]] Event copy(int unit, const at::Tensor& slice, const Event& complete);

  // Undefined: the unit's slice stays on the device.
  [[nodiscard]] at::Tensor gradient(int unit) const { return host_[static_cast<size_t>(unit)]; }
  // Blocks the host until gradient(unit) has arrived.
  void await(int unit) const { arrived_[static_cast<size_t>(unit)].wait(); }

 private:
  Communicator& replica_;
  Copies& copies_;
  std::vector<at::Tensor> host_;  // [unit]
  std::vector<Event> arrived_;    // [unit]
};

}  // namespace partita::internal
