// Gradient slices in host memory: each is copied as soon as it is complete, overlapping the backward of later blocks;
// or after each micro-batch, and added there by a thread of its own.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/device/worker.h"
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
  // Reduces the unit's slice, complete on this rank's shard at `complete`, over the replicas and copies it to the host,
  // or adds it to what is there since begin_sums.
  [[nodiscard]] Sent send(int unit, const at::Tensor& slice, const Event& complete, Stream& communication);
  // Copies a slice that is complete on all ranks.
  [[nodiscard]] Event copy(int unit, const at::Tensor& slice, const Event& complete);
  // What is sent next of each unit is the first of a step.
  void begin_sums() { has_sum_.assign(has_sum_.size(), false); }

  // Undefined: the unit's slice stays on the device.
  [[nodiscard]] at::Tensor gradient(int unit) const { return host_[static_cast<size_t>(unit)]; }
  // When gradient(unit) is there, with all that was sent.
  [[nodiscard]] const Event& arrived(int unit) const { return arrived_[static_cast<size_t>(unit)]; }

  [[nodiscard]] int64_t bytes() const;

 private:
  struct Arrival {  // a buffer for what is added
    at::Tensor memory;
    Event added;
  };

  Communicator& replica_;
  Copies& copies_;
  std::vector<bool> adds_, has_sum_;  // [unit]
  std::vector<at::Tensor> host_;      // [unit]
  std::vector<Event> arrived_;        // [unit]
  std::array<Arrival, 2> arrivals_;   // used in turn
  size_t turn_ = 0;
  std::unique_ptr<Worker> adder_;  // null: nothing is added. Last: it ends before what it uses
};

}  // namespace partita::internal
