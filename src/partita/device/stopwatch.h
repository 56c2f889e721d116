// Times of points in the work of a device's current stream; on the CPU, of the calling thread.
//
//   std::unique_ptr<Stopwatch> watch = make_stopwatch(device);
//   watch->mark();  ...  watch->mark();
//   watch->take()                          // {0, 0.012}: seconds since the first mark
#pragma once
#include <c10/core/Device.h>

#include <memory>
#include <vector>

namespace partita::internal {

class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  virtual void mark() = 0;
  // Of all marks since the last call, in order. Blocks until the device has come to the last one.
  [[nodiscard]] virtual std::vector<double> take() = 0;
};

// Error: a device that this build does not support.
[[nodiscard]] std::unique_ptr<Stopwatch> make_stopwatch(c10::Device);

}  // namespace partita::internal
