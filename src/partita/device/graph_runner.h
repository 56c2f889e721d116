// Work that is the same in every step, given to the device at the cost of one call: on CUDA it is recorded as a graph.
//
//   std::unique_ptr<GraphRunner> forward_and_backward = make_graph_runner(device);
//   for (...) forward_and_backward->run([&] { ... kernels that read what changes from the device's memory ... });
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace partita::internal {

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  // The first times `work` runs, so that libraries make their plans and memory grows to its size; then it is recorded,
  // and from then on repeated without being called: with the same addresses, and whatever these hold. `work` gives all
  // to the current stream, waits for nothing, and leaves what the host holds as it was.
  virtual void run(const std::function<void()>& work) = 0;
  // What was recorded is no longer so: addresses or shapes have changed.
  virtual void invalidate() = 0;
};

// On the CPU the work simply runs. On CUDA the current stream must not be the device's default one
// (leave_default_stream): that cannot be recorded.
[[nodiscard]] std::unique_ptr<GraphRunner> make_graph_runner(c10::Device);

// Makes another stream of the device current for this thread, where its default one is.
void leave_default_stream(c10::Device);

}  // namespace partita::internal
