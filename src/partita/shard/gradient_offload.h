// Gradient slices in host memory: each is copied as soon as it is complete, overlapping the backward of later blocks.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/comm/communicator.h"
#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/shard/gradient_plan.h"
#include "partita/shard/unit_squares.h"

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
  // Of slices that were sent, measured while they are still on the device.
  [[nodiscard]] const UnitSquares& squares() const { return squares_; }

  [[nodiscard]] at::Tensor gradient(int unit) const { return host_[static_cast<size_t>(unit)]; }
  // Blocks the host until gradient(unit) has arrived.
  void await(int unit) const { arrived_[static_cast<size_t>(unit)].wait(); }

 private:
  Communicator& replica_;
  Copies& copies_;
  std::vector<at::Tensor> host_;  // [unit]
  std::vector<Event> arrived_;    // [unit]
  UnitSquares squares_;
};

}  // namespace partita::internal
