// Copies between device and host memory that overlap with compute: one stream for each direction, running concurrently.
//
//   Event arrived = copies.down(host, slice, compute.record());    // starts after the work already on compute
//   ...
//   arrived.wait();                                                // blocks the host, before it reads
//
// On the CPU a copy is immediate.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "partita/device/stream.h"

namespace partita::internal {

class Copies {
 public:
  virtual ~Copies() = default;
  // Copies host <- device, or device <- host, once `after` has happened. Contiguous, of equal dtype and size; both must
  // stay alive and untouched until the returned event. Blocks the calling thread unless host memory is pinned
  // (device/host_memory.h).
  [[nodiscard]] virtual Event down(at::Tensor host, at::Tensor device, const Event& after) = 0;
  [[nodiscard]] virtual Event up(at::Tensor device, at::Tensor host, const Event& after) = 0;
};

// Error: a device that this build does not support.
[[nodiscard]] std::unique_ptr<Copies> make_copies(c10::Device);

}  // namespace partita::internal
