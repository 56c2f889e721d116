// Copies between a device and host memory, beside the device's compute: one stream down to the host and one up to the
// device, which run at the same time.
//
//   Event arrived = copies.down(host, slice, compute.record());    // begins after what compute holds
//   ...
//   arrived.wait();                                                // of the host, before it reads
//
// On the CPU a copy is made at once.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "partita/device/stream.h"

namespace partita::internal {

class Copies {
 public:
  virtual ~Copies() = default;
  // host <- device, or device <- host, once `after` has happened. Contiguous, of one dtype and size; both stay alive
  // and untouched until the returned event. The calling thread waits unless host memory is pinned (device/host_memory.h).
  [[nodiscard]] virtual Event down(at::Tensor host, at::Tensor device, const Event& after) = 0;
  [[nodiscard]] virtual Event up(at::Tensor device, at::Tensor host, const Event& after) = 0;
};

// Error: a device that this build has no code for.
[[nodiscard]] std::unique_ptr<Copies> make_copies(c10::Device);

}  // namespace partita::internal
